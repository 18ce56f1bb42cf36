"""`?ordering=` with a last word: equal rows keep their order, so that none is shown on two pages."""

from __future__ import annotations

from typing import Any

from rest_framework.filters import OrderingFilter


class StableOrdering(OrderingFilter):
    def get_ordering(self, *args: Any, **kwargs: Any) -> list[str] | None:
        ordering = super().get_ordering(*args, **kwargs)
        return [*ordering, "pk"] if ordering else None
