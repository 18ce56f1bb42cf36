"""Addresses below /api/v1/."""

from apps.common.api.routers import Router
from apps.copies.api.views import MigrationViewSet

router = Router()
router.register("cache/migrations", MigrationViewSet, basename="migration")
urlpatterns = router.urls
