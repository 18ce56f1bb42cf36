"""Heartbeats and the supervisor's word, joined."""

from __future__ import annotations

import pytest

from apps.live.processes import ROLES, Supervised, missing_roles, states
from kvcm_platform.index.heartbeat import Process

NOW = 1_800_000_000.0


def beat(role: str, pid: int, age: float = 0.0, node: str = "a") -> Process:
    return Process(role=role, node=node, pid=pid, started_at=NOW - 100, seen_at=NOW - age, detail={})


@pytest.mark.parametrize(
    ("age", "state"), [(0, "ok"), (4.9, "ok"), (5.1, "late"), (14, "late"), (16, "lost")]
)
def test_silence_makes_a_process_late_then_lost(age: float, state: str) -> None:
    assert [process.state for process in states([beat("web", 1, age)], [], NOW)] == [state]


def test_restarts_come_from_the_supervisor() -> None:
    (process,) = states([beat("worker", 7)], [Supervised("a", "worker", 7, 3)], NOW)
    assert process.restarts == 3


def test_a_process_that_was_replaced_is_left_out() -> None:
    beats = [beat("worker", 7, age=20), beat("worker", 8)]
    assert [process.pid for process in states(beats, [Supervised("a", "worker", 8, 1)], NOW)] == [8]


def test_a_process_not_yet_replaced_is_shown_as_lost() -> None:
    (process,) = states([beat("worker", 7, age=20)], [Supervised("a", "worker", None, 1)], NOW)
    assert process.state == "lost"


def test_a_silent_process_of_another_host_is_shown() -> None:
    beats = [beat("worker", 7, age=20, node="b"), beat("worker", 8)]
    assert [process.pid for process in states(beats, [Supervised("a", "worker", 8, 0)], NOW)] == [8, 7]


def test_roles_without_a_living_process_are_missing() -> None:
    found = states([beat("web", 1), beat("metadata", 2, age=6), beat("control", 3)], [], NOW)
    assert missing_roles(found) == ["metadata", "worker", "beat"]
    assert missing_roles([]) == list(ROLES)
