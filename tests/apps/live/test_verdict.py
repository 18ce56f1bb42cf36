"""The verdict names what is wrong, and only that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.live.processes import ROLES, ProcessState
from apps.live.verdict import verdict
from kvcm_platform.core.registry import GroupEntry, Quota, ReclaimSettings, Registry, StorageEntry
from kvcm_platform.core.types import PreferStrategy, StorageType
from kvcm_platform.index.stats import GroupUsage


def running(*roles: str) -> list[ProcessState]:
    return [ProcessState(role, "a", number, "ok", 0, 0, 0) for number, role in enumerate(roles)]


def registry(**storage: object) -> Registry:
    entry = StorageEntry(name="nfs_01", number=1, type=StorageType.NFS, spec={}, **storage)
    group = GroupEntry(name="chat", number=3, storage_candidates=("nfs_01",), quota=Quota(1000))
    return Registry(1, {"nfs_01": entry}, {"chat": group}, {})


def test_all_is_well() -> None:
    judged = verdict(registry(), {3: GroupUsage(used_bytes=800)}, running(*ROLES))
    assert (judged.state, judged.reasons) == ("ok", ())


@pytest.mark.parametrize(
    ("role", "state"), [("metadata", "down"), ("worker", "degraded"), ("control", "degraded")]
)
def test_without_metadata_the_platform_is_down(role: str, state: str) -> None:
    judged = verdict(registry(), {}, running(*(other for other in ROLES if other != role)))
    assert judged.state == state
    assert len(judged.reasons) == 1


def test_an_unavailable_storage_is_named_with_its_reason() -> None:
    judged = verdict(registry(is_available=False, unavailable_reason="mount hangs"), {}, running(*ROLES))
    assert judged.state == "degraded"
    assert judged.reasons == ("Storage nfs_01 is unavailable: mount hangs.",)


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ({"is_enabled": False}, "nfs_01 is disabled"),
        ({"is_draining": True}, "nfs_01 is draining"),
        ({"is_enabled": False, "is_available": False}, "nfs_01 is disabled"),
    ],
)
def test_a_group_without_a_storage_to_write_to_is_named(storage: dict[str, bool], why: str) -> None:
    judged = verdict(registry(**storage), {}, running(*ROLES))
    assert judged.state == "degraded"
    assert judged.reasons == (f"Group chat has no storage to write to: {why}.",)


def test_a_storage_that_does_not_exist_yet_is_none_to_write_to() -> None:
    group = GroupEntry(name="chat", number=3, storage_candidates=("a", "b"), quota=Quota(1000))
    judged = verdict(Registry(1, {}, {"chat": group}, {}), {}, running(*ROLES))
    assert judged.reasons == ("Group chat has no storage to write to: a does not exist, b does not exist.",)


def test_a_storage_of_a_type_that_the_group_never_takes_is_none_to_write_to() -> None:
    known = registry()
    group = replace(known.groups["chat"], prefer_strategy=PreferStrategy.ALWAYS_3FS)
    judged = verdict(Registry(1, known.storages, {"chat": group}, {}), {}, running(*ROLES))
    assert judged.reasons == ("Group chat has no storage to write to: nfs_01 is not of its type.",)


def test_a_disabled_storage_is_a_decision_while_another_serves() -> None:
    known = registry(is_enabled=False, is_available=False)
    other = StorageEntry(name="nfs_02", number=2, type=StorageType.NFS, spec={})
    group = replace(known.groups["chat"], storage_candidates=("nfs_01", "nfs_02"))
    both = Registry(1, {**known.storages, "nfs_02": other}, {"chat": group}, {})
    assert verdict(both, {}, running(*ROLES)).state == "ok"


@pytest.mark.parametrize(
    ("used", "reserved", "part"),
    [(950, 0, "far above its high watermark (95% used)"), (900, 100, "is full"), (2000, 0, "is full")],
)
def test_a_group_under_pressure_is_named(used: int, reserved: int, part: str) -> None:
    usage = GroupUsage(used_bytes=used, reserved_bytes=reserved)
    judged = verdict(registry(), {3: usage}, running(*ROLES))
    assert judged.state == "degraded"
    assert "chat" in judged.reasons[0] and part in judged.reasons[0]


@pytest.mark.parametrize(
    ("reclaim", "used", "pending", "is_told"),
    [
        ({"used_ratio": 0.8}, 900, 0, False),
        ({"used_ratio": 0.8}, 901, 0, True),
        ({"used_ratio": 0.8}, 950, 60, False),
        ({"used_ratio": 0.0, "used_bytes": 500}, 751, 0, True),
        ({"used_ratio": 0.0, "used_bytes": 500}, 750, 0, False),
        ({"used_ratio": 0.0}, 999, 0, False),
        ({"used_ratio": 3.2}, 999, 0, False),
    ],
)
def test_the_middle_between_high_mark_and_quota_counts(
    reclaim: dict[str, float], used: int, pending: int, is_told: bool
) -> None:
    """Of 1000 bytes; what waits for its deletion is on its way out."""
    known = registry()
    group = replace(known.groups["chat"], reclaim=ReclaimSettings(**reclaim))
    usage = GroupUsage(used_bytes=used, pending_bytes=pending)
    judged = verdict(Registry(1, known.storages, {"chat": group}, {}), {3: usage}, running(*ROLES))
    assert any("far above" in reason for reason in judged.reasons) is is_told


def test_what_cannot_be_reclaimed_is_named() -> None:
    judged = verdict(registry(), {}, running(*ROLES), troubles={"chat": "storage nfs_01 is gone."})
    assert judged.state == "degraded"
    assert judged.reasons == ("Blocks of group chat cannot be reclaimed: storage nfs_01 is gone.",)
