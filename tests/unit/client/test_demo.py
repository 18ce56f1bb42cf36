"""The made-up workload, and the demonstration that plays it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvcm_platform.client.load import demo as demo_module
from kvcm_platform.client.load.demo import MODELS, Demo, DemoOptions
from kvcm_platform.client.load.report import Report
from kvcm_platform.client.load.workload import Habits, Workload

from .fake_meta import FakeMeta


class TestWorkload:
    def test_a_turn_continues_the_last_one(self) -> None:
        session = Workload(0, 1, Habits()).new_session()
        before = session.next_turn()
        assert before
        for _ in range(5):
            after = session.next_turn()
            assert after is not None
            assert after[: len(before)] == before
            assert len(after) > len(before)
            before = after

    def test_a_conversation_ends_at_its_longest_prompt(self) -> None:
        session = Workload(0, 1, Habits(most_blocks=60)).new_session()
        lengths = []
        while (keys := session.next_turn()) is not None:
            lengths.append(len(keys))
        assert 0 < max(lengths) <= 60

    def test_system_prompts_are_shared_and_nothing_else(self) -> None:
        habits = Habits(system_prompts=3, system_blocks=10)
        first, second = (self.blocks(Workload(0, seed, habits)) for seed in (1, 2))
        shared = first & second
        assert 3 * 2 <= len(shared) <= 3 * 30
        assert not first & self.blocks(Workload(1, 1, habits)), "models do not share prompts"

    def test_popular_prompts_are_used_more(self) -> None:
        workload = Workload(0, 1, Habits(system_prompts=10))
        counts = Counter(keys[0] for _ in range(3000) if (keys := workload.new_session().next_turn()))
        ranked = [count for _, count in counts.most_common()]
        share = sum((n + 1) ** -1.1 for n in range(10))
        assert ranked[0] / 3000 == pytest.approx(1 / share, abs=0.05)

    def test_the_seed_decides(self) -> None:
        assert self.blocks(Workload(0, 7, Habits())) == self.blocks(Workload(0, 7, Habits()))

    def test_pauses_have_the_asked_mean(self) -> None:
        session = Workload(0, 1, Habits(think_seconds=8)).new_session()
        pauses = [session.pause_seconds() for _ in range(20_000)]
        assert sum(pauses) / len(pauses) == pytest.approx(8, rel=0.05)

    def blocks(self, workload: Workload) -> set[int]:
        return {key for _ in range(60) for key in workload.new_session().next_turn() or []}


@contextmanager
def running(demo: Demo) -> Iterator[list[Report]]:
    result: list[Report] = []
    thread = threading.Thread(target=lambda: result.append(demo.run()))
    thread.start()
    yield result
    demo.stop()
    thread.join(30)
    assert not thread.is_alive()


def wait_until(condition: object, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestDemo:
    def test_all_models_are_registered_and_served_with_data(
        self, endpoint: str, service: FakeMeta, tmp_path: Path
    ) -> None:
        demo = Demo(DemoOptions(endpoint, engines=5, calls_per_second=300, data_root=tmp_path))
        with running(demo) as result:
            wait_until(lambda: service.calls["FinishWriteCache"] > 150)
        (report,) = result
        assert set(service.instances) == {model.instance_id for model in MODELS}
        assert {request.instance_group for request in service.instances.values()} == {"default"}
        assert report.hit_blocks > 0
        assert report.bytes_read > 0
        assert (report.errors, report.bytes_wrong) == (0, 0)
        assert {name for name, _ in service.serving} == set(service.instances)

    def test_the_rate_is_gentle(self, endpoint: str, service: FakeMeta) -> None:
        demo = Demo(DemoOptions(endpoint, engines=4, calls_per_second=60))
        with running(demo):
            time.sleep(1.0)
            before, started = sum(service.calls.values()), time.monotonic()
            time.sleep(4.0)
            rate = (sum(service.calls.values()) - before) / (time.monotonic() - started)
        assert 5 < rate < 120

    def test_a_removed_instance_is_registered_again(self, endpoint: str, service: FakeMeta) -> None:
        demo = Demo(DemoOptions(endpoint, engines=1, calls_per_second=200))
        with running(demo):
            wait_until(lambda: service.calls["FinishWriteCache"] > 5)
            service.instances.clear()
            wait_until(lambda: service.instances)

    def test_a_missing_server_is_waited_for_and_stop_still_works(
        self, endpoint: str, service: FakeMeta, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(demo_module, "_RETRY_SECONDS", 0.05)
        service.unavailable_next = 6
        told: list[str] = []
        demo = Demo(
            DemoOptions(endpoint, engines=1, calls_per_second=100),
            on_error=lambda rpc, error: told.append(rpc),
        )
        with running(demo) as result:
            wait_until(lambda: service.calls["FinishWriteCache"] > 2)
        assert told == ["RegisterInstance"]
        assert result[0].errors == 1
