"""MigrateCache over the control door, with the platform's own client."""

from __future__ import annotations

import pytest

from apps.common.actor import Role
from apps.copies.tasks import run_copies
from kvcm_platform.client import BlockingMigrationClient, Connection, KvcmError, TransportError
from kvcm_platform.core.types import Retention
from tests.apps.control.conftest import Control, Start
from tests.apps.copies.conftest import BLOCK, Read, Write, model, read, write  # noqa: F401 (fixtures)
from tests.factories.actors import make_token

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = range(1, 21)


def client_of(control: Control, role: Role) -> BlockingMigrationClient:
    return BlockingMigrationClient(
        Connection(f"127.0.0.1:{control.process.rpc_port}", token=make_token(role))
    )


def test_from_plan_to_done(start_control: Start, write: Write, read: Read) -> None:  # noqa: F811
    write(KEYS)
    with client_of(start_control(), Role.OPERATOR) as client:
        plan = client.migrate_cache("nfs_a", "nfs_b", instance_group="chat", dry_run=True)
        assert (plan.migration_id, plan.planned_blocks, plan.planned_bytes) == (0, 20, 20 * BLOCK)
        began = client.migrate_cache("nfs_a", "nfs_b", instance_id="model-a", retention=Retention.KEEP_BOTH)
        progress = client.get_migration(began.migration_id)
        assert (progress.state, progress.planned_blocks, progress.eta_seconds) == ("queued", 20, None)
        run_copies()
        progress = client.get_migration(began.migration_id)
        assert (progress.state, progress.copied_blocks, progress.is_over) == ("done", 20, True)
        again = client.migrate_cache("nfs_a", "nfs_b", instance_group="chat")
        assert client.cancel_migration(again.migration_id).state == "cancelled"
    assert sum(read(KEYS).values()) == 20


def test_refusals(start_control: Start, write: Write) -> None:  # noqa: F811
    write(KEYS)
    control = start_control()
    with client_of(control, Role.OPERATOR) as client:
        with pytest.raises(KvcmError) as refused:
            client.migrate_cache("nfs_a", "nowhere", instance_group="chat")
        assert (refused.value.code, "target_storage" in refused.value.message) == ("INVALID_ARGUMENT", True)
        with pytest.raises(KvcmError):
            client.get_migration(99)
    with client_of(control, Role.VIEWER) as client, pytest.raises(TransportError) as denied:
        client.migrate_cache("nfs_a", "nfs_b", instance_group="chat")
    assert denied.value.code == "PERMISSION_DENIED"
