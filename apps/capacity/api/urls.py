"""Addresses below /api/v1/."""

from apps.capacity.api.views import ReclaimRunViewSet
from apps.common.api.routers import Router

router = Router()
router.register("capacity/reclaim-runs", ReclaimRunViewSet, basename="reclaim-run")
urlpatterns = router.urls
