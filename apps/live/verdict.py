"""The one sentence about the platform's state, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvcm_platform.core.placement import in_order
from kvcm_platform.core.reclaim.pressure import pressure_of
from kvcm_platform.core.registry import GroupEntry, Registry
from kvcm_platform.index.stats import GroupUsage

from .processes import ProcessState, missing_roles

_WITHOUT = {
    "metadata": "No metadata process runs: engines get no answer.",
    "control": "The control process does not run: registrations and changes have to wait.",
    "worker": "No worker runs: nothing is reclaimed or deleted.",
    "beat": "The scheduler (beat) does not run: periodic checks have stopped.",
    "web": "The web process sends no heartbeat.",
}
_DOWN_WITHOUT = frozenset({"metadata"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """`state` is ok, degraded (served with a fault) or down (engines are not served)."""

    state: str
    reasons: tuple[str, ...]


UNREACHABLE = Verdict("down", ("The index (Redis) does not answer: engines get no answer.",))


def verdict(
    registry: Registry,
    usages: Mapping[int, GroupUsage],
    processes: Iterable[ProcessState],
    verification: str = "",
    troubles: Mapping[str, str] = MappingProxyType({}),
    faults: Iterable[str] = (),
) -> Verdict:
    """`verification` = what the check of an index in doubt has to say; empty without one.

    `troubles`: name of a group -> why its blocks cannot be reclaimed. `faults` of the index's servers, in
    sentences.
    """
    missing = missing_roles(processes)
    reasons = [_WITHOUT[role] for role in missing]
    if verification:
        reasons.append(verification)
    reasons += faults
    for storage in sorted(registry.storages.values(), key=lambda entry: entry.name):
        if storage.is_enabled and not storage.is_available:
            why = storage.unavailable_reason or "its check fails"
            reasons.append(f"Storage {storage.name} is unavailable: {why.rstrip('.')}.")
        elif storage.is_enabled and storage.is_full:
            why = storage.unavailable_reason or "it is full"
            reasons.append(f"Storage {storage.name} takes no new blocks: {why.rstrip('.')}.")
    for group in sorted(registry.groups.values(), key=lambda entry: entry.name):
        found = _nowhere(registry, group), _pressure(group, usages.get(group.number, GroupUsage()))
        reasons += [reason for reason in found if reason]
    for name, why in sorted(troubles.items()):
        reasons.append(f"Blocks of group {name} cannot be reclaimed: {why.rstrip('.')}.")
    state = "down" if _DOWN_WITHOUT & set(missing) else "degraded" if reasons else "ok"
    return Verdict(state, tuple(reasons))


def _nowhere(registry: Registry, group: GroupEntry) -> str:
    """Why nothing can be written for a group; empty where it can, or where each storage is named already."""
    wanted = in_order(registry.storages_of(group), group.prefer_strategy)
    if any(storage.is_writable for storage in wanted):
        return ""
    whys = []
    for name in group.storage_candidates:
        storage = registry.storages.get(name)
        if storage is None:
            whys.append("does not exist")
        elif not storage.is_enabled or storage.is_draining:
            whys.append(f"is {storage.refusal}")
        else:
            whys.append("is not of its type" if storage.is_available else "is unavailable")
    if set(whys) == {"is unavailable"}:
        return ""
    told = ", ".join(f"{name} {why}" for name, why in zip(group.storage_candidates, whys, strict=True))
    return f"Group {group.name} has no storage to write to: {told}."


def _pressure(group: GroupEntry, usage: GroupUsage) -> str:
    """Why a group is near or at its limit; empty where it is not."""
    capacity = group.quota.capacity_bytes
    taken = usage.used_bytes + usage.reserved_bytes
    if capacity <= 0:
        return ""
    if taken >= capacity:
        return f"Group {group.name} is full: writes are refused."
    pressure = pressure_of(group, taken - usage.pending_bytes)
    if pressure.is_behind:
        return f"Group {group.name} is far above its high watermark ({pressure.ratio:.0%} used)."
    return ""
