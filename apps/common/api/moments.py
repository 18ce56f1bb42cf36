"""Filters by time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django_filters import fields
from django_filters import rest_framework as filters


class _MomentField(fields.IsoDateTimeField):
    def to_python(self, value: Any) -> datetime | None:
        moment: datetime | None = super().to_python(value)
        try:
            return None if moment is None else moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError("is beyond the times that there are") from error


class MomentFilter(filters.IsoDateTimeFilter):
    """An ISO time; one that is no time any more as UTC is refused, as databases would."""

    field_class = _MomentField
