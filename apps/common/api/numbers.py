"""Filters by the number of a row."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters

from kvcm_platform.core.validation.values import INT64


class RowNumberFilter(filters.NumberFilter):
    """The number of a row; what no row can have is refused here: databases fail on it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(min_value=0, max_value=INT64, decimal_places=0, **more)
