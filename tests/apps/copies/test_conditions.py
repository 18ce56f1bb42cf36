"""What migrations report as going wrong."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.alerts.models import Alert, AlertRule
from apps.alerts.services.evaluate import alerts_evaluate
from apps.common.actor import Role
from apps.common.conditions import Finding
from apps.copies import conditions
from apps.copies.models import CopyRun, PolicyTrouble
from apps.copies.services.troubles import SILENCE, troubles_note
from apps.copies.tasks import run_copies
from kvcm_platform.core.migration import Direction
from kvcm_platform.duties.copy_waves import Stop, Tally
from tests.apps.conftest import Api
from tests.apps.copies.conftest import Write
from tests.apps.copies.test_rest import URL, body

pytestmark = pytest.mark.django_db(transaction=True)
POLICY = {"source": "nfs_a", "target": "nfs_b", "trigger_ratio": 0.3, "low_ratio": 0.1}
RECENT = {"recent_seconds": 3600.0}
NOTHING: dict[str, float] = {}


def stuck() -> list[Finding]:
    return list(conditions.migrations_stuck(NOTHING))


def change(api: Api, path: str, **changes: Any) -> None:
    answer = api(Role.ADMIN).patch(f"/api/v1/{path}/", changes)
    assert answer.status_code == 200, answer.json()


def test_a_policy_that_is_blocked(api: Api, sent: list[str], write: Write) -> None:
    write(range(1, 41))
    change(api, "instance-groups/chat", migration=POLICY)
    change(api, "storages/nfs_b", draining=True)
    run_copies()
    (first,) = stuck()
    assert (first.subject, first.value, first.groups) == ("chat", 1.0, ("chat",))
    assert first.message == "Cold blocks of group chat cannot leave their storage: nfs_b: draining."
    since = PolicyTrouble.objects.get().since
    run_copies()
    assert PolicyTrouble.objects.get().since == since, "it is the same one still"
    change(api, "storages/nfs_b", draining=False)
    run_copies()
    assert CopyRun.objects.get().copied_blocks > 0
    assert stuck() == []


@pytest.mark.parametrize("is_left", ["below", "off"])
def test_a_policy_that_wants_nothing_any_more_is_in_no_trouble(
    api: Api, sent: list[str], write: Write, is_left: str
) -> None:
    write(range(1, 41))
    change(api, "instance-groups/chat", migration=POLICY)
    change(api, "storages/nfs_b", enabled=False)
    run_copies()
    assert len(stuck()) == 1
    policy = {**POLICY, "trigger_ratio": 0.9} if is_left == "below" else None
    change(api, "instance-groups/chat", migration=policy)
    run_copies()
    assert stuck() == []


def test_a_policy_whose_target_fails(api: Api, sent: list[str], write: Write, tmp_path: Path) -> None:
    """Its checks did not find out yet."""
    write(range(1, 41))
    change(api, "instance-groups/chat", migration=POLICY)
    root = tmp_path / "nfs_b"
    shutil.rmtree(root)
    root.write_bytes(b"")
    run_copies()
    (finding,) = stuck()
    assert finding.message.startswith("Cold blocks of group chat cannot leave their storage: ")
    # What failed is passed over for a while: rounds that find nothing to do change nothing.
    run_copies()
    assert len(stuck()) == 1


def test_what_a_round_says(model: object) -> None:
    group: Any = type("Group", (), {"name": "chat"})

    def told(tally: Tally, direction: Direction = Direction.DEMOTION, minutes: float = 0) -> bool:
        what: Any = type("Migration", (), {"group": group, "direction": direction})
        now = timezone.now() + timedelta(minutes=minutes)
        troubles_note(results=[(what, tally)], blocked=(), now=now)
        return PolicyTrouble.objects.exists()

    full = Tally(stop=Stop.NO_ROOM, detail="nfs_b: its quota is used up")
    assert told(full)
    assert told(Tally(stop=Stop.DONE)), "it did nothing"
    assert told(Tally(stop=Stop.FENCED)), "it says nothing"
    assert not told(Tally(copied_blocks=3, copied_bytes=30, failed_blocks=1, reasons={"broken": 1}))
    assert told(Tally(failed_blocks=1, reasons={"broken": 1}))
    assert not told(Tally(stop=Stop.DONE), minutes=SILENCE.total_seconds() / 60 + 1), "it was long ago"
    assert not told(full, Direction.PROMOTION), "what stays where it is is served"
    assert told(Tally(stop=Stop.STORAGE), Direction.PROMOTION)
    assert "cannot come back" in stuck()[0].message
    assert not told(full, Direction.REQUEST), "it has a record of its own"


def test_a_request_that_waits_and_one_that_fails(
    api: Api, sent: list[str], write: Write, tmp_path: Path
) -> None:
    write(range(1, 41))
    client = api(Role.OPERATOR)
    run_id = client.post(URL, body()).json()["id"]
    assert stuck() == []
    change(api, "storages/nfs_b", enabled=False)
    run_copies()
    (waits,) = stuck()
    assert waits.message == f"Migration {run_id} of group chat from nfs_a to nfs_b waits: nfs_b: disabled.", (
        waits
    )
    change(api, "storages/nfs_b", enabled=True)
    for path in (tmp_path / "nfs_a").rglob("*"):
        if path.is_file() and not path.name.startswith(".kvcm"):
            path.unlink()
    run_copies()
    assert client.get(f"{URL}{run_id}/").json()["state"] == "failed"
    assert stuck() == []
    (failed,) = conditions.migrations_failed(RECENT)
    assert (failed.subject, failed.groups) == ("chat", ("chat",))
    assert failed.message.startswith(f"Migration {run_id} of group chat from nfs_a to nfs_b failed: ")
    CopyRun.objects.update(ended_at=timezone.now() - timedelta(hours=2))
    assert list(conditions.migrations_failed(RECENT)) == []
    CopyRun.objects.update(ended_at=timezone.now())
    write(range(101, 111))
    again = client.post(URL, body()).json()["id"]
    assert len(list(conditions.migrations_failed(RECENT))) == 1
    CopyRun.objects.filter(pk=again).update(state="done")
    assert list(conditions.migrations_failed(RECENT)) == [], "the same way was gone through since"


def test_rules_begin_with_both_and_fire(api: Api, sent: list[str], write: Write) -> None:
    write(range(1, 41))
    change(api, "instance-groups/chat", migration=POLICY)
    change(api, "storages/nfs_b", draining=True)
    run_copies()
    now = timezone.now()
    alerts_evaluate(clock=lambda: now)
    rules = {
        rule.name: rule.for_seconds for rule in AlertRule.objects.filter(condition__startswith="migration_")
    }
    assert rules == {"migration_stuck": 120, "migration_failed": 0}
    assert Alert.objects.get(rule_name="migration_stuck").state == "pending"
    alerts_evaluate(clock=lambda: now + timedelta(seconds=121))
    alert = Alert.objects.get(rule_name="migration_stuck")
    assert (alert.state, alert.subject) == ("firing", "chat")
