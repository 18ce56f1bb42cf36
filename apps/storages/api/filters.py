"""Filters of the lists of storages and incidents."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from apps.common.api.moments import MomentFilter
from apps.common.choices import choices_of
from apps.storages.choices import STORAGE_TYPES, IncidentKind
from apps.storages.models import Storage, StorageIncident


class StorageFilter(filters.FilterSet):
    name = filters.CharFilter()
    type = filters.MultipleChoiceFilter(choices=STORAGE_TYPES)
    enabled = filters.BooleanFilter(field_name="is_enabled")
    draining = filters.BooleanFilter(field_name="is_draining")
    leaving = filters.BooleanFilter(field_name="is_leaving")
    available = filters.BooleanFilter(field_name="is_available")

    class Meta:
        model = Storage
        fields = ()


class IncidentFilter(filters.FilterSet):
    """`since` and `until`: whatever was wrong at some time between the two."""

    storage = filters.CharFilter(field_name="storage_name")
    kind = filters.MultipleChoiceFilter(choices=choices_of(IncidentKind))
    open = filters.BooleanFilter(field_name="ended_at", lookup_expr="isnull")
    since = MomentFilter(method="ended_since")
    until = MomentFilter(field_name="started_at", lookup_expr="lt")

    class Meta:
        model = StorageIncident
        fields = ()

    def ended_since(
        self, incidents: QuerySet[StorageIncident], _: str, since: datetime
    ) -> QuerySet[StorageIncident]:
        return incidents.filter(Q(ended_at__gte=since) | Q(ended_at__isnull=True))
