"""Whose history an account may see."""

from __future__ import annotations

from collections.abc import Sequence

from apps.common.actor import Actor
from apps.instances.selectors import group_get, instance_get
from apps.storages.selectors import storage_get
from apps.usage.choices import Kind
from apps.usage.models import Series
from kvcm_platform.core.errors import Code, DomainError


def series_seen(kind: Kind, names: Sequence[str], *, acting: Actor) -> list[Series]:
    """The series in the order of the names, also of objects that are gone.

    An instance that was in several groups has one for each that may be seen. Raises NOT_FOUND
    (INSTANCE_NOT_EXIST) for what does not exist or may not be seen, and PERMISSION_DENIED for the
    platform, whose figures are sums over all groups.
    """
    if kind is Kind.PLATFORM:
        if acting.groups is not None:
            raise DomainError(
                Code.PERMISSION_DENIED,
                f"the platform is every instance group; {acting.name} is limited to some",
            )
        names = [""]
    rows = Series.objects.filter(kind=kind.value, name__in=names).order_by("name", "group_name")
    if acting.groups is not None and kind is Kind.GROUP:
        rows = rows.filter(name__in=acting.groups)
    elif acting.groups is not None and kind is Kind.INSTANCE:
        rows = rows.filter(group_name__in=acting.groups)
    found = list(rows)
    for name in names:
        if not any(row.name == name for row in found):
            _require(kind, name, acting)
    return sorted(found, key=lambda row: names.index(row.name))


def _require(kind: Kind, name: str, acting: Actor) -> None:
    """That it exists, though it has no history yet."""
    if kind is Kind.GROUP:
        group_get(acting=acting, name=name)
    elif kind is Kind.STORAGE:
        storage_get(name=name)
    elif kind is Kind.INSTANCE:
        instance_get(acting=acting, instance_id=name)
