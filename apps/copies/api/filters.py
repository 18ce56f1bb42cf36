"""What lists of migrations can be narrowed to."""

from __future__ import annotations

from django_filters import rest_framework as filters

from apps.copies.choices import DIRECTIONS, RUN_STATES
from apps.copies.models import CopyRun


class MigrationFilter(filters.FilterSet):
    instance_group = filters.CharFilter(field_name="group_name")
    state = filters.MultipleChoiceFilter(choices=RUN_STATES)
    direction = filters.MultipleChoiceFilter(choices=DIRECTIONS)

    class Meta:
        model = CopyRun
        fields = ("instance_id", "source", "target")
