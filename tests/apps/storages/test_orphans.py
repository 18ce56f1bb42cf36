"""Searches for orphans: over REST, by the command, and carried out by a worker."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.audit.selectors import audit_entry_list
from apps.common.actor import Role
from apps.common.services import installation_name
from apps.storages.models import OrphanRun
from apps.storages.services import orphan_run_carry_out, orphan_runs_resume, orphans_search, storages_tidy
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.duties import orphans as duty
from kvcm_platform.index import keyspace
from kvcm_platform.storage import marker
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = "/api/v1/storages/nfs_a/orphans/"


@pytest.fixture
def storage(index: redis.Redis, tmp_path: Path) -> Path:
    """A storage with one orphan; whatever was written is old enough."""
    make_storage(tmp_path)
    make_group()
    make_instance()
    path = tmp_path / "nfs_a/model-a/tp0/1f.abcd1234"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\1" * 4096)
    return path


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all files were written long ago."""
    for module in ("apps.storages.services.orphans", "apps.storages.management.commands.orphans"):
        monkeypatch.setattr(f"{module}.MIN_AGE_SECONDS", 0)
    original = duty.OrphanOrder

    def order(*args: Any) -> Any:
        return original(*args[:3], -1)

    monkeypatch.setattr("apps.storages.services.orphan_search.OrphanOrder", order)


def carry_out(run_id: int, valkey: ValkeyServer, **more: Any) -> OrphanRun | None:
    return orphan_run_carry_out(run_id=run_id, redis_url=valkey.url, **{"beat_seconds": 0.05, **more})


def test_a_search_over_rest(
    api: Api, storage: Path, old: None, sent: list[str], empty_valkey: ValkeyServer
) -> None:
    client = api(Role.OPERATOR)
    made = client.post(RUNS, {})
    assert (made.status_code, made.json()["state"], made.json()["dry_run"]) == (202, "queued", True)
    assert sent == ["apps.storages.tasks.search_orphans"]
    again = client.post(RUNS, {"dry_run": False})
    assert (again.status_code, again.json()["code"]) == (409, "in_use")
    run_id = made.json()["id"]
    carry_out(run_id, empty_valkey)
    run = client.get(f"{RUNS}{run_id}/").json()
    assert (run["state"], run["reason"], run["figures"]["orphans"]) == ("done", "", 1)
    assert (run["figures"]["orphan_bytes"], run["figures"]["deleted"]) == (4096, 0)
    assert run["figures"]["owner"] == f"{installation_name()}/nfs_a"
    samples = client.get(f"{RUNS}{run_id}/samples/?page_size=1").json()
    assert (samples["count"], samples["results"][0]["name"]) == (1, str(storage))
    assert storage.exists()
    second = client.post(RUNS, {"dry_run": False}).json()
    carry_out(second["id"], empty_valkey)
    page = client.get(RUNS).json()
    assert [one["figures"]["deleted"] for one in page["results"]] == [1, 0]
    assert not storage.parent.exists()
    acts = [entry.action for entry in audit_entry_list(acting=ADMIN)]
    assert acts.count("storage.search_orphans") == 2


def test_who_may_search(api: Api, storage: Path) -> None:
    assert api(Role.VIEWER).post(RUNS, {}).status_code == 403
    assert api(Role.OPERATOR, groups=["chat"]).post(RUNS, {}).status_code == 403
    assert api(Role.VIEWER).get(RUNS).json()["count"] == 0
    client = api(Role.OPERATOR)
    assert client.post("/api/v1/storages/none/orphans/", {}).status_code == 404
    assert client.get(f"{RUNS}77/").status_code == 404
    refused = client.post(RUNS, {"dryrun": True}).json()
    assert (refused["code"], refused["field"]) == ("invalid_argument", "dryrun")
    young = client.post(RUNS, {"min_age_seconds": 60}).json()
    assert (young["code"], young["field"]) == ("invalid_argument", "min_age_seconds")


def test_young_files_stay(storage: Path, empty_valkey: ValkeyServer) -> None:
    run = orphans_search(acting=ADMIN, name="nfs_a", is_dry=False)
    ended = carry_out(run.pk, empty_valkey)
    assert ended is not None
    assert (ended.figures["young"], ended.figures["orphans"]) == (1, 0)
    assert storage.exists()


def test_cancel(api: Api, storage: Path, old: None, empty_valkey: ValkeyServer, monkeypatch) -> None:
    client = api(Role.OPERATOR)
    waiting = client.post(RUNS, {}).json()["id"]
    assert client.post(f"{RUNS}{waiting}/cancel/").json()["state"] == "cancelled"
    assert carry_out(waiting, empty_valkey) is None
    running = client.post(RUNS, {"dry_run": False}).json()["id"]
    is_there, go_on = threading.Event(), threading.Event()
    original = duty.OrphanSearch._ids_away

    async def held(self: Any) -> Any:
        is_there.set()
        assert go_on.wait(40)
        while not self._should_stop():
            pass
        return await original(self)

    monkeypatch.setattr(duty.OrphanSearch, "_ids_away", held)

    def ask() -> None:
        assert is_there.wait(40)
        OrphanRun.objects.filter(pk=running).update(is_cancel_asked=True)
        go_on.set()

    asking = threading.Thread(target=ask)
    asking.start()
    ended = carry_out(running, empty_valkey)
    asking.join()
    assert ended is not None
    assert (ended.state, storage.exists()) == ("cancelled", True)


def test_a_run_whose_worker_died_is_taken_over(
    storage: Path, old: None, sent: list[str], empty_valkey: ValkeyServer
) -> None:
    run = orphans_search(acting=ADMIN, name="nfs_a", is_dry=False)
    sent.clear()
    assert orphan_runs_resume() == 0, "its message is on the way"
    now = timezone.now()
    OrphanRun.objects.update(state="running", holder="dead", seen_at=now, tries=1)
    assert carry_out(run.pk, empty_valkey) is None, "somebody has it"
    OrphanRun.objects.update(seen_at=now - timedelta(minutes=2))
    assert (orphan_runs_resume(), sent) == (1, ["apps.storages.tasks.search_orphans"])
    ended = carry_out(run.pk, empty_valkey)
    assert ended is not None
    assert (ended.state, ended.tries, ended.figures["deleted"]) == ("done", 2, 1)
    OrphanRun.objects.update(state="running", seen_at=now - timedelta(minutes=2), tries=3)
    assert orphan_runs_resume() == 0
    assert OrphanRun.objects.get().state == "failed"


def test_a_cancelled_run_whose_worker_died_deletes_no_more(
    api: Api, storage: Path, old: None, sent: list[str], empty_valkey: ValkeyServer
) -> None:
    run = orphans_search(acting=ADMIN, name="nfs_a", is_dry=False)
    long_ago = timezone.now() - timedelta(minutes=2)
    OrphanRun.objects.update(state="running", holder="dead", seen_at=long_ago, tries=1)
    assert api(Role.OPERATOR).post(f"{RUNS}{run.pk}/cancel/").status_code == 200
    assert orphan_runs_resume() == 1
    assert carry_out(run.pk, empty_valkey) is None
    assert (OrphanRun.objects.get().state, storage.exists()) == ("cancelled", True)


def test_a_run_from_before_the_clock_went_back_is_taken_over(
    storage: Path, old: None, sent: list[str], empty_valkey: ValkeyServer
) -> None:
    run = orphans_search(acting=ADMIN, name="nfs_a", is_dry=False)
    ahead = timezone.now() + timedelta(hours=5)
    OrphanRun.objects.update(state="running", holder="dead", seen_at=ahead, tries=1)
    assert orphan_runs_resume() == 1
    ended = carry_out(run.pk, empty_valkey)
    assert ended is not None
    assert ended.state == "done"


def test_a_search_that_takes_too_long_ends(storage: Path, empty_valkey: ValkeyServer, monkeypatch) -> None:
    async def endless(self: Any) -> Any:
        while not self._should_stop():
            pass
        raise duty.Stopped

    monkeypatch.setattr(duty.OrphanSearch, "_ids_away", endless)
    run = orphans_search(acting=ADMIN, name="nfs_a")
    ended = carry_out(run.pk, empty_valkey, most_seconds=0.1)
    assert ended is not None
    assert (ended.state, ended.reason) == ("failed", "it took longer than 0.1 s")


def test_a_foreign_storage_fails_with_the_reason(
    storage: Path, old: None, tmp_path: Path, empty_valkey: ValkeyServer
) -> None:
    (tmp_path / "nfs_a" / marker.MARKER).write_text('{"owner": "other/s", "life": "1"}')
    run = orphans_search(acting=ADMIN, name="nfs_a", is_dry=False)
    ended = carry_out(run.pk, empty_valkey)
    assert ended is not None
    assert ended.state == "failed"
    assert "another owner (other/s)" in ended.reason
    assert storage.exists()


def test_the_command(storage: Path, old: None, empty_valkey: ValkeyServer, sent: list[str]) -> None:
    out = StringIO()
    call_command("orphans", "nfs_a", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert (found["state"], found["dry_run"], found["orphans"]) == ("done", True, 1)
    assert found["samples"][0]["name"] == str(storage)
    call_command("orphans", "nfs_a", "--delete", stdout=out)
    assert "deleted 1 (4096 bytes) and 0 from the list, 0 failed" in out.getvalue()
    assert (storage.exists(), sent) == (False, [])
    with pytest.raises(CommandError, match="does not exist"):
        call_command("orphans", "none", stdout=out)


def test_the_list_of_orphans_shows_on_its_storage(api: Api, storage: Path, index: redis.Redis) -> None:
    index.hset(keyspace.storage(1), mapping={"on": 3, "ob": 3072})
    assert api(Role.VIEWER).get("/api/v1/storages/nfs_a/").json()["orphans"] == {
        "blocks": 3,
        "used_bytes": 3072,
    }


def test_empty_folders_go_in_time(storage: Path) -> None:
    storage.unlink()
    assert storages_tidy() == {"nfs_a": 0}
    assert storages_tidy(min_age_seconds=-1) == {"nfs_a": 2}
    assert not (storage.parent.parent).exists()


def test_a_type_without_backend_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_storage(tmp_path)
    monkeypatch.setattr("apps.storages.services.orphans.KINDS", {})
    with pytest.raises(DomainError) as caught:
        orphans_search(acting=ADMIN, name="nfs_a")
    assert caught.value.code is Code.UNSUPPORTED
