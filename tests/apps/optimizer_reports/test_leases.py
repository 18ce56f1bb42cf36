"""Jobs as leases: who has one, who loses it, what becomes of runs meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.optimizer_reports.models import OptimizerJob, OptimizerRun, OptimizerTrace
from apps.optimizer_reports.services import carrying
from apps.optimizer_reports.services.carrying import job_carry_out
from apps.optimizer_reports.services.leases import LOST_SECONDS, MOST_TRIES, job_take, lease_beat
from apps.optimizer_reports.services.upkeep import optimizer_resume
from tests.apps.conftest import Api
from tests.support.optimizer_jobs import MEMORY_BYTES, JobHere, mooncake_lines, ready_trace, upload, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("jobs_here", "sent")]
RUNS = "/api/v1/optimizer/runs/"


def begin(client, trace: int, **members) -> int:
    answer = client.post(RUNS, {"trace": trace, "hot_prefixes": 0, "has_bound": False, **members})
    assert answer.status_code == 201, answer.content
    return answer.data["id"]


@pytest.fixture
def trace(api: Api) -> int:
    return ready_trace(api(), mooncake_lines([[1, 2], [1, 3]]))["id"]


def grow_old(job_id: int, seconds: float = LOST_SECONDS + 1) -> None:
    """As if its holder had not been seen for so long."""
    OptimizerJob.objects.filter(pk=job_id).update(seen_at=timezone.now() - timedelta(seconds=seconds))


def test_a_job_has_one_holder_until_that_is_silent(api: Api, trace: int) -> None:
    run = begin(api(), trace)
    first = job_take()
    assert first is not None and job_take() is None
    assert lease_beat(first, 0.5)
    shown = OptimizerRun.objects.get(pk=run)
    assert (shown.state, shown.progress) == ("running", 0.5)

    grow_old(first.job.pk)
    second = job_take()
    assert second is not None and second.job.pk == first.job.pk and second.job.tries == 2
    # The first one comes back: nothing that it does changes anything any more.
    assert not lease_beat(first, 0.9)
    assert not job_carry_out(first, memory_bytes=MEMORY_BYTES)
    assert OptimizerJob.objects.get(pk=first.job.pk).holder == second.holder
    assert job_carry_out(second, memory_bytes=MEMORY_BYTES)
    shown.refresh_from_db()
    assert (shown.state, shown.progress) == ("done", 1.0)
    assert not job_carry_out(first, memory_bytes=MEMORY_BYTES)
    shown.refresh_from_db()
    assert shown.state == "done"


def test_a_clock_that_went_back_keeps_no_job(api: Api, trace: int) -> None:
    begin(api(), trace)
    first = job_take()
    assert first is not None
    grow_old(first.job.pk, seconds=-3600)
    assert job_take() is not None


def test_holders_that_die_again_and_again_end_the_job(api: Api, trace: int) -> None:
    run = begin(api(), trace)
    for _ in range(MOST_TRIES):
        lease = job_take()
        assert lease is not None
        grow_old(lease.job.pk)
    assert job_take() is None
    assert optimizer_resume()["given_up"] == 1
    shown = OptimizerRun.objects.get(pk=run)
    assert shown.state == "failed" and f"died {MOST_TRIES} times" in shown.reason
    assert api().post(f"{RUNS}{run}/retry/").data["state"] == "queued"
    assert work().done == 1
    shown.refresh_from_db()
    assert (shown.state, shown.reason) == ("done", "")


def test_the_same_for_a_trace_that_kills_its_reader(api: Api) -> None:
    made = upload(api(), mooncake_lines([[1]])).data["id"]
    for _ in range(MOST_TRIES):
        lease = job_take()
        assert lease is not None
        assert OptimizerTrace.objects.get(pk=made).state == "reading"
        grow_old(lease.job.pk)
    assert optimizer_resume() == {"given_up": 1, "cancelled": 0, "settled": 0, "queued": 0}
    shown = OptimizerTrace.objects.get(pk=made)
    assert shown.state == "failed" and "died" in shown.reason


def test_jobs_of_several_runs_take_turns(api: Api, trace: int) -> None:
    client = api()
    large = begin(client, trace, policies=["lru", "fifo", "clock", "sieve"])
    small = begin(client, trace, policies=["lfu"])
    order = [lease.job.run_id for _ in range(3) if (lease := job_take())]
    assert order == [large, small, large]
    # A trace that comes in goes before all of them.
    made = upload(client, mooncake_lines([[1]])).data["id"]
    lease = job_take()
    assert lease is not None and lease.job.trace_id == made


class _Cancelled(JobHere):
    """Ends only when it is told to."""

    killed = False
    on_wait = staticmethod(lambda: None)

    def __init__(self, order) -> None:
        super().__init__(order)
        self.result = None

    def wait(self, seconds: float) -> bool:
        type(self).on_wait()
        return False

    def kill(self) -> None:
        type(self).killed = True


def test_cancelling_ends_what_runs(api: Api, trace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    client = api()
    run = begin(client, trace, policies=["lru", "fifo"])
    monkeypatch.setattr(carrying, "JobProcess", _Cancelled)
    monkeypatch.setattr(_Cancelled, "killed", False)
    monkeypatch.setattr(_Cancelled, "on_wait", staticmethod(lambda: client.post(f"{RUNS}{run}/cancel/")))
    lease = job_take()
    assert lease is not None and not job_carry_out(lease, memory_bytes=MEMORY_BYTES)
    assert _Cancelled.killed
    found = client.get(f"{RUNS}{run}/").data
    assert (found["state"], {job["state"] for job in found["jobs"]}) == ("cancelled", {"cancelled"})
    assert job_take() is None


def test_a_deleted_trace_stops_its_reader(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = api()
    made = upload(client, mooncake_lines([[1]])).data["id"]
    monkeypatch.setattr(carrying, "JobProcess", _Cancelled)
    monkeypatch.setattr(_Cancelled, "killed", False)
    delete = staticmethod(lambda: client.delete(f"/api/v1/optimizer/traces/{made}/"))
    monkeypatch.setattr(_Cancelled, "on_wait", delete)
    lease = job_take()
    assert lease is not None and not job_carry_out(lease, memory_bytes=MEMORY_BYTES)
    assert _Cancelled.killed and not OptimizerTrace.objects.exists()


def test_one_that_takes_too_long_ends(api: Api, trace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(api(), trace)
    monkeypatch.setattr(carrying, "JobProcess", _Cancelled)
    monkeypatch.setattr(_Cancelled, "on_wait", staticmethod(lambda: None))
    lease = job_take()
    assert lease is not None and not job_carry_out(lease, memory_bytes=MEMORY_BYTES, most_seconds=0)
    assert "longer" in OptimizerRun.objects.get(pk=run).reason


def test_a_cancelled_run_whose_worker_died_ends(api: Api, trace: int) -> None:
    client = api()
    run = begin(client, trace)
    lease = job_take()
    assert lease is not None
    assert client.post(f"{RUNS}{run}/cancel/").data["state"] == "running"
    assert optimizer_resume()["cancelled"] == 0
    grow_old(lease.job.pk)
    assert job_take() is None
    found = optimizer_resume()
    assert (found["cancelled"], found["settled"]) == (1, 1)
    assert OptimizerRun.objects.get(pk=run).state == "cancelled"


def test_a_run_whose_last_worker_died_before_it_could_say_so_ends(
    api: Api, trace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(api(), trace)
    monkeypatch.setattr(carrying, "run_settle", lambda _: False)
    assert work().done == 1
    assert OptimizerRun.objects.get(pk=run).state == "running"
    assert optimizer_resume()["settled"] == 1
    shown = OptimizerRun.objects.get(pk=run)
    assert shown.state == "done" and shown.summary is not None


def test_a_job_that_fails_fails_its_run_and_the_others_stay(
    api: Api, trace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api()
    run = begin(client, trace, policies=["lru", "fifo"], capacities=[2])

    class Failing(JobHere):
        def __init__(self, order) -> None:
            super().__init__(order)
            if order.arguments["plan"]["policy"] == "fifo":
                self.result, self.failure = None, "the sky fell"

    monkeypatch.setattr(carrying, "JobProcess", Failing)
    assert (work().done, OptimizerRun.objects.get(pk=run).state) == (1, "failed")
    found = client.get(f"{RUNS}{run}/").data
    assert found["reason"] == "fifo, capacity 2: the sky fell"
    assert [row["policy"] for row in client.get(f"{RUNS}{run}/result/").data["curves"]] == ["lru"]
    monkeypatch.setattr(carrying, "JobProcess", JobHere)
    client.post(f"{RUNS}{run}/retry/")
    assert work().done == 1
    assert [row["policy"] for row in client.get(f"{RUNS}{run}/result/").data["curves"]] == ["lru", "fifo"]
