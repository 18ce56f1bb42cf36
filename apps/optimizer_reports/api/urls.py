"""Addresses below /api/v1/optimizer/."""

from apps.common.api.routers import Router
from apps.optimizer_reports.api.cost_models import CostModelViewSet
from apps.optimizer_reports.api.estimates import EstimateViewSet
from apps.optimizer_reports.api.savings import SavingsViewSet

router = Router()
router.register("cost-models", CostModelViewSet, basename="optimizer-cost-model")
router.register("estimates", EstimateViewSet, basename="optimizer-estimate")
router.register("savings", SavingsViewSet, basename="optimizer-savings")
urlpatterns = router.urls
