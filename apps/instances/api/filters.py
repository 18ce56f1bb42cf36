"""Filters of the lists of groups and instances."""

from django_filters import rest_framework as filters

from apps.instances.choices import PREFER_STRATEGIES
from apps.instances.models import Instance, InstanceGroup


class GroupFilter(filters.FilterSet):
    name = filters.CharFilter()
    prefer_strategy = filters.MultipleChoiceFilter(choices=PREFER_STRATEGIES)

    class Meta:
        model = InstanceGroup
        fields = ()


class InstanceFilter(filters.FilterSet):
    instance_group = filters.CharFilter(field_name="group__name")
    model_name = filters.CharFilter()

    class Meta:
        model = Instance
        fields = ()
