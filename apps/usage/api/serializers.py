"""Shapes of usage, its history, plans and quotas."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.common.choices import choices_of
from apps.storages.choices import STORAGE_TYPES
from apps.usage.choices import KINDS, ROW_KINDS
from apps.usage.selectors.history import AMOUNT_COLUMNS, LEVEL_COLUMNS
from kvcm_platform.core.growth import Confidence, State

GROWTH_STATES = choices_of(State)
CONFIDENCES = choices_of(Confidence)
ORDERINGS = [(name, name) for name in ("name", "-name", "bytes_per_second", "-bytes_per_second")]
NAMES_AT_MOST = 20


class UsageQuery(serializers.Serializer):
    """Which rows. `name` is that of a group or a storage."""

    kind = serializers.MultipleChoiceField(choices=ROW_KINDS, required=False)
    name = serializers.CharField(required=False)
    search = serializers.CharField(required=False, help_text="a part of the name")
    ordering = serializers.ChoiceField(choices=ORDERINGS, required=False)


class TurnoverOutput(serializers.Serializer):
    """What comes and goes; `residence_seconds` null while nothing leaves."""

    written_bytes_per_second = serializers.FloatField()
    left_bytes_per_second = serializers.FloatField()
    residence_seconds = serializers.FloatField(allow_null=True)


class GrowthOutput(serializers.Serializer):
    """The trend of the newest `span_seconds`, and between what its slope lies at 90 %."""

    state = serializers.ChoiceField(choices=GROWTH_STATES)
    bytes_per_second = serializers.FloatField()
    least_bytes_per_second = serializers.FloatField()
    most_bytes_per_second = serializers.FloatField()
    span_seconds = serializers.IntegerField()
    points = serializers.IntegerField()
    confidence = serializers.ChoiceField(choices=CONFIDENCES)
    turnover = TurnoverOutput(allow_null=True)


class UsageRowOutput(serializers.Serializer):
    """What is held now. Bytes are null while the index does not answer, limits and marks where there are
    none. `live_bytes` is what marks are compared with: without pending deletions, with reservations. `growth`
    is null for types of storage, of which there is no history.
    """

    kind = serializers.ChoiceField(choices=ROW_KINDS)
    name = serializers.CharField()
    storage_type = serializers.ChoiceField(choices=STORAGE_TYPES, allow_null=True)
    used_bytes = serializers.IntegerField(allow_null=True)
    live_bytes = serializers.IntegerField(allow_null=True)
    reserved_bytes = serializers.IntegerField(allow_null=True)
    pending_bytes = serializers.IntegerField(allow_null=True)
    blocks = serializers.IntegerField(allow_null=True)
    limit_bytes = serializers.IntegerField(allow_null=True)
    high_bytes = serializers.IntegerField(allow_null=True)
    low_bytes = serializers.IntegerField(allow_null=True)
    device_free_bytes = serializers.IntegerField(allow_null=True)
    growth = GrowthOutput(allow_null=True)
    seconds_to_high = serializers.FloatField(allow_null=True)
    seconds_to_full = serializers.FloatField(allow_null=True)
    earliest_seconds_to_full = serializers.FloatField(allow_null=True)
    latest_seconds_to_full = serializers.FloatField(allow_null=True)


class HistoryQuery(serializers.Serializer):
    """Whose history, of which time (by default the last hour), in which steps (by default fitting ones)."""

    kind = serializers.ChoiceField(choices=KINDS)
    name = serializers.ListField(
        child=serializers.CharField(allow_blank=True),
        max_length=NAMES_AT_MOST,
        required=False,
        help_text="may be given several times; none for the platform",
    )
    step = serializers.IntegerField(required=False, min_value=1, max_value=90 * 86_400, help_text="seconds")

    def get_fields(self) -> dict[str, Any]:
        # `from` is no name in Python.
        moment = serializers.DateTimeField(required=False)
        return {**super().get_fields(), "from": moment, "to": serializers.DateTimeField(required=False)}


def _column(name: str) -> serializers.ListField:
    is_float = name.endswith(("rate", "_ms"))
    is_nullable = is_float or name in LEVEL_COLUMNS
    child = (serializers.FloatField if is_float else serializers.IntegerField)(allow_null=is_nullable)
    return serializers.ListField(child=child)


HistoryColumnsOutput = type(
    "HistoryColumnsOutput",
    (serializers.Serializer,),
    {
        "__doc__": "One value for each of `at`: levels null where unknown, sums 0 where nothing was done.",
        "__module__": __name__,
        **{name: _column(name) for name in (*LEVEL_COLUMNS, *AMOUNT_COLUMNS)},
    },
)


class SeriesOutput(serializers.Serializer):
    """One history. `instance_group` is that of an instance."""

    name = serializers.CharField(allow_blank=True)
    instance_group = serializers.CharField(allow_null=True)
    columns = HistoryColumnsOutput()


class HistoryOutput(serializers.Serializer):
    """`at` are the beginnings of steps, in unix seconds. `resolution_seconds`: of what steps are made."""

    kind = serializers.ChoiceField(choices=KINDS)
    step_seconds = serializers.IntegerField()
    resolution_seconds = serializers.IntegerField()
    at = serializers.ListField(child=serializers.IntegerField())
    series = SeriesOutput(many=True)

    def get_fields(self) -> dict[str, Any]:
        moments = {name: serializers.DateTimeField() for name in ("from", "to")}
        return {**moments, **super().get_fields()}


class PlanQuery(serializers.Serializer):
    horizon_days = serializers.IntegerField(required=False, default=30, min_value=1, max_value=730)
    kind = serializers.MultipleChoiceField(choices=ROW_KINDS, required=False)
    name = serializers.CharField(required=False)


class StepOutput(serializers.Serializer):
    text = serializers.CharField()
    bytes = serializers.IntegerField()


class AdviceOutput(serializers.Serializer):
    """What to add, or what may be taken off, and how that comes about; null where nothing can be said."""

    sentence = serializers.CharField()
    steps = StepOutput(many=True)
    expected_bytes = serializers.IntegerField(allow_null=True)
    needed_bytes = serializers.IntegerField(allow_null=True)
    fill_ratio = serializers.FloatField()
    add_bytes = serializers.IntegerField()
    removable_bytes = serializers.IntegerField()
    bytes_per_hour_longer = serializers.IntegerField(allow_null=True)


class PlanRowOutput(serializers.Serializer):
    """One group or storage. `growth` is over up to a week, `peak_bytes` the most that was used in it."""

    kind = serializers.ChoiceField(choices=ROW_KINDS)
    name = serializers.CharField()
    horizon_days = serializers.IntegerField()
    used_bytes = serializers.IntegerField(allow_null=True)
    peak_bytes = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField(allow_null=True)
    growth = GrowthOutput()
    seconds_to_high = serializers.FloatField(allow_null=True)
    seconds_to_full = serializers.FloatField(allow_null=True)
    advice = AdviceOutput(allow_null=True)


class QuotaQuery(serializers.Serializer):
    instance_group = serializers.CharField(required=False, allow_blank=True)
    storage_type = serializers.ChoiceField(choices=STORAGE_TYPES, required=False, allow_blank=True)


class LimitOutput(serializers.Serializer):
    """One limit of a group; `storage_type` null = of the group as a whole."""

    instance_group = serializers.CharField()
    storage_type = serializers.ChoiceField(choices=STORAGE_TYPES, allow_null=True)
    limit_bytes = serializers.IntegerField()
    used_bytes = serializers.IntegerField(allow_null=True)
    reserved_bytes = serializers.IntegerField(allow_null=True)
    pending_bytes = serializers.IntegerField(allow_null=True)
