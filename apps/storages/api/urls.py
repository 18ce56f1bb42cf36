"""Addresses below /api/v1/."""

from apps.common.api.routers import Router
from apps.storages.api.views import StorageViewSet

router = Router()
router.register("storages", StorageViewSet, basename="storage")
urlpatterns = router.urls
