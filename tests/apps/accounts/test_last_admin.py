"""Two admins who remove each other at the same moment: one stays. Only PostgreSQL has two writers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.supervisor.postgres import EMBEDDED
from tests.support.postgres import running_postgres

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import django, threading
django.setup()
from django.core.management import call_command
from django.db import connections, transaction
from apps.accounts.models import User
from apps.accounts.services import account_create, account_remove
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import DomainError

call_command("migrate", verbosity=0)
acting = Actor.system("test")
for name in ("ada", "eve"):
    account_create(acting=acting, username=name, password="a long enough secret", role=Role.ADMIN)
both_removed = threading.Barrier(2)

def remove(name):
    try:
        with transaction.atomic():
            account_remove(acting=acting, username=name)
            # Neither commits before the other one has looked, unless the other one has to wait for it.
            try:
                both_removed.wait(2)
            except threading.BrokenBarrierError:
                pass
    except DomainError as error:
        print(error.code)
    finally:
        connections.close_all()

threads = [threading.Thread(target=remove, args=(name,)) for name in ("ada", "eve")]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(User.objects.count())
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory with a running PostgreSQL."""
    with running_postgres() as folder:
        yield folder


def test_one_of_two_admins_stays(data_dir: Path) -> None:
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "kvcm_platform.settings.dev",
        "KVCM_DATA_DIR": str(data_dir),
        "KVCM_REDIS_URL": "unix:///nowhere/at/all.sock",
        "DATABASE_URL": EMBEDDED,
    }
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-2:] == ["in_use", "1"]
