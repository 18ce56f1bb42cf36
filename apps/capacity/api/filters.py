"""What lists of reclaim runs can be narrowed to."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from apps.capacity.choices import RECLAIM_STATES, TRIGGERS
from apps.capacity.models import ReclaimRun
from apps.common.api.moments import MomentFilter


class ReclaimRunFilter(filters.FilterSet):
    instance_group = filters.CharFilter(field_name="group_name")
    instance_id = filters.CharFilter(
        method="of_instance", label="runs that took blocks of it, or were asked to"
    )
    storage = filters.CharFilter(method="of_storage", label="runs that took blocks there, or were asked to")
    state = filters.MultipleChoiceFilter(choices=RECLAIM_STATES)
    trigger = filters.MultipleChoiceFilter(choices=TRIGGERS)
    since = MomentFilter(field_name="created_at", lookup_expr="gte")
    until = MomentFilter(field_name="created_at", lookup_expr="lte")

    class Meta:
        model = ReclaimRun
        fields = ()

    def of_instance(self, runs: QuerySet[ReclaimRun], name: str, value: str) -> QuerySet[ReclaimRun]:
        return runs.filter(Q(by_instance__has_key=value) | Q(request__instance_id=value))

    def of_storage(self, runs: QuerySet[ReclaimRun], name: str, value: str) -> QuerySet[ReclaimRun]:
        return runs.filter(Q(by_storage__has_key=value) | Q(request__storage=value))
