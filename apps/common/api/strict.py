"""Bodies in which a misspelled member is refused and not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers


class StrictSerializer(serializers.Serializer):
    """Refuses members that it does not know, each by its name."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(map(str, set(data) - set(self.fields)))
            if unknown:
                raise serializers.ValidationError({name: ["is not a member"] for name in unknown})
        return super().to_internal_value(data)
