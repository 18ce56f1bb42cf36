"""Addresses below /api/v1/."""

from apps.common.api.routers import Router
from apps.storages.api.health import IncidentViewSet
from apps.storages.api.types import StorageTypeViewSet
from apps.storages.api.views import StorageViewSet

router = Router()
router.register("storages", StorageViewSet, basename="storage")
router.register("health/incidents", IncidentViewSet, basename="incident")
router.register("storage-types", StorageTypeViewSet, basename="storage-type")
urlpatterns = router.urls
