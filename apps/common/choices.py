"""Enumerations in the form that model fields, serializers and filters take."""

from enum import StrEnum


def choices_of(kinds: type[StrEnum]) -> list[tuple[str, str]]:
    return [(kind.value, kind.value) for kind in kinds]
