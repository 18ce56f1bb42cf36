"""Addresses below /api/v1/."""

from apps.alerts.api.receivers import ReceiverViewSet
from apps.alerts.api.views import AlertViewSet, ConditionViewSet, RuleViewSet, SilenceViewSet
from apps.common.api.routers import Router

router = Router()
router.register("alerts", AlertViewSet, basename="alert")
router.register("alert-conditions", ConditionViewSet, basename="alert-condition")
router.register("alert-rules", RuleViewSet, basename="alert-rule")
router.register("alert-silences", SilenceViewSet, basename="alert-silence")
router.register("alert-receivers", ReceiverViewSet, basename="alert-receiver")
urlpatterns = router.urls
