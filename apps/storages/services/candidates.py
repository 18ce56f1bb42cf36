"""Which storages groups write to."""

from __future__ import annotations

from collections.abc import Iterable

from apps.storages.models import StorageCandidate


def candidates_set(*, group_name: str, storage_names: Iterable[str]) -> None:
    """Write a group's order of storages, inside the caller's transaction."""
    StorageCandidate.objects.filter(group_name=group_name).delete()
    StorageCandidate.objects.bulk_create(
        StorageCandidate(group_name=group_name, storage_name=name, position=position)
        for position, name in enumerate(storage_names)
    )
