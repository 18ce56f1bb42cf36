"""What a demand or a request asks for, as targets of the choice (duties/reclaim_choice.py)."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.core.reclaim.marks import Demand, ReclaimUsage, Scope, Subject, demands
from kvcm_platform.core.reclaim.runs import ReclaimRequest
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, Registry
from kvcm_platform.duties.reclaim_choice import Target
from kvcm_platform.index import served
from kvcm_platform.index.served import Served


def scope_dict(one: Demand) -> dict[str, object]:
    """As RunReport.scopes has it."""
    return {
        "scope": one.scope.value,
        "subject": one.subject,
        "used": one.used,
        "limit": one.limit,
        "high": one.high,
        "low": one.low,
        "need": one.need,
    }


def target_of(one: Demand) -> Target:
    name = (one.scope.value, one.subject)
    return Target(name, one.need, one.scope is Scope.KEYS, one.numbers, one.instance_number)


def narrowed(target: Target, scope: Target) -> Target | None:
    """What of a target lies within a request's scope; None = nothing can."""
    if None not in (target.instance, scope.instance) and target.instance != scope.instance:
        return None
    numbers = target.numbers
    if scope.numbers is not None:
        numbers = scope.numbers if numbers is None else numbers & scope.numbers
    instance = target.instance if scope.instance is None else scope.instance
    return Target(target.name, target.amount, target.in_blocks, numbers, instance, target.idle_before_ms)


def lowering(
    registry: Registry, group: GroupEntry, instances: Sequence[InstanceEntry], usage: ReclaimUsage
) -> list[Demand]:
    """What it takes to bring every limit of a group down to its low mark, wherever it is now."""
    every = [
        Subject(Scope.GROUP, group.name),
        *(Subject(Scope.STORAGE_TYPE, kind.value) for kind in group.quota.per_type),
        *(Subject(Scope.STORAGE, name) for name in registry.storages),
        *(Subject(Scope.KEYS, entry.instance_id) for entry in instances),
    ]
    return demands(registry, group, usage, begun=dict.fromkeys(every, 0))


def request_scope(registry: Registry, instances: Sequence[InstanceEntry], request: ReclaimRequest) -> Target:
    """Which blocks a request is about, without an amount."""
    storage = registry.storages.get(request.storage)
    numbers = frozenset(storage.numbers) if storage is not None else None
    instance = next((entry.number for entry in instances if entry.instance_id == request.instance_id), None)
    return Target(("", ""), None, numbers=numbers, instance=instance)


def unfit(registry: Registry, instances: Sequence[InstanceEntry], request: ReclaimRequest) -> str:
    """Why a request can be about nothing; empty when it can."""
    if request.instance_id and all(entry.instance_id != request.instance_id for entry in instances):
        return f"instance {request.instance_id} is not in group {request.group}"
    if request.storage and request.storage not in registry.storages:
        return f"storage {request.storage} does not exist"
    return ""


def amount_of(request: ReclaimRequest, scope: Target, amounts: Served) -> tuple[int | None, bool]:
    """How much a request asks for, and whether in blocks; None = everything within its scope.

    `amounts` are what the group's instances could give now.
    """
    if request.blocks:
        return request.blocks, True
    if request.bytes:
        return request.bytes, False
    if request.percent:
        _, evictable = served.total(amounts, scope.numbers, scope.instance)
        return int(evictable * request.percent / 100), False
    return None, False


def is_to_low_marks(request: ReclaimRequest) -> bool:
    return not (request.blocks or request.bytes or request.percent or request.idle_seconds)
