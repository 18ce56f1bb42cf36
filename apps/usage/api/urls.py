"""Addresses below /api/v1/."""

from apps.common.api.routers import Router
from apps.usage.api.views import PlanViewSet, QuotaViewSet, UsageViewSet

router = Router()
router.register("capacity/usage", UsageViewSet, basename="usage")
router.register("capacity/plan", PlanViewSet, basename="plan")
router.register("quotas", QuotaViewSet, basename="quota")
urlpatterns = router.urls
