"""What lists of traces and runs can be narrowed to."""

from __future__ import annotations

from django_filters import rest_framework as filters

from apps.common.api.moments import MomentFilter
from apps.common.api.numbers import RowNumberFilter
from apps.optimizer_reports.choices import RUN_ORIGINS, RUN_STATES, TRACE_SOURCES, TRACE_STATES
from apps.optimizer_reports.models import OptimizerRun, OptimizerTrace


class TraceFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=TRACE_STATES)
    source = filters.MultipleChoiceFilter(choices=TRACE_SOURCES)
    format = filters.CharFilter()
    since = MomentFilter(field_name="added_at", lookup_expr="gte")
    until = MomentFilter(field_name="added_at", lookup_expr="lte")

    class Meta:
        model = OptimizerTrace
        fields = ()


class RunFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=RUN_STATES)
    origin = filters.MultipleChoiceFilter(choices=RUN_ORIGINS)
    trace = RowNumberFilter(field_name="trace_id")
    instance_group = filters.CharFilter(field_name="group_name")
    since = MomentFilter(field_name="asked_at", lookup_expr="gte")
    until = MomentFilter(field_name="asked_at", lookup_expr="lte")

    class Meta:
        model = OptimizerRun
        fields = ()
