"""Filters of the list of storages."""

from django_filters import rest_framework as filters

from apps.storages.choices import STORAGE_TYPES
from apps.storages.models import Storage


class StorageFilter(filters.FilterSet):
    name = filters.CharFilter()
    type = filters.MultipleChoiceFilter(choices=STORAGE_TYPES)
    enabled = filters.BooleanFilter(field_name="is_enabled")
    draining = filters.BooleanFilter(field_name="is_draining")
    available = filters.BooleanFilter(field_name="is_available")

    class Meta:
        model = Storage
        fields = ()
