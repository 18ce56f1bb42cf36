"""Addresses below /api/v1/."""

from apps.capacity.api.evictions import EvictionViewSet
from apps.capacity.api.previews import PreviewViewSet
from apps.capacity.api.trims import TrimViewSet
from apps.capacity.api.views import ReclaimRunViewSet
from apps.common.api.routers import Router

router = Router()
router.register("capacity/reclaim-runs", ReclaimRunViewSet, basename="reclaim-run")
router.register("capacity/evictions", EvictionViewSet, basename="eviction")
router.register("capacity/preview", PreviewViewSet, basename="capacity-preview")
router.register("cache/trim", TrimViewSet, basename="trim")
urlpatterns = router.urls
