"""Addresses below /api/v1/optimizer/."""

from django.urls import re_path

from apps.common.api.routers import Router
from apps.optimizer_reports.api.cost_models import CostModelViewSet
from apps.optimizer_reports.api.estimates import EstimateViewSet
from apps.optimizer_reports.api.options import OptionsView
from apps.optimizer_reports.api.recommendations import RecommendationViewSet
from apps.optimizer_reports.api.reports import ReportViewSet
from apps.optimizer_reports.api.runs import RunViewSet
from apps.optimizer_reports.api.savings import SavingsViewSet
from apps.optimizer_reports.api.schedules import ScheduleViewSet
from apps.optimizer_reports.api.traces import TraceViewSet

router = Router()
router.register("traces", TraceViewSet, basename="optimizer-trace")
router.register("runs", RunViewSet, basename="optimizer-run")
router.register("cost-models", CostModelViewSet, basename="optimizer-cost-model")
router.register("estimates", EstimateViewSet, basename="optimizer-estimate")
router.register("recommendations", RecommendationViewSet, basename="optimizer-recommendation")
router.register("reports", ReportViewSet, basename="optimizer-report")
router.register("schedules", ScheduleViewSet, basename="optimizer-schedule")
router.register("savings", SavingsViewSet, basename="optimizer-savings")
urlpatterns = [*router.urls, re_path("^options/?$", OptionsView.as_view(), name="optimizer-options")]
