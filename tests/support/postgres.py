"""A PostgreSQL of its own for tests that compare the two databases."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvcm_platform.supervisor.postgres import Postgres


@contextmanager
def running_postgres() -> Iterator[Path]:
    """Its data directory. The server's user may enter it, which it may not below pytest's tmp_path."""
    with tempfile.TemporaryDirectory(prefix="kvcm-") as name:
        postgres = Postgres(Path(name))
        spec = postgres.prepare()
        environ = {**os.environ, **spec.environment}
        as_user = {"user": spec.user, "group": spec.group, "extra_groups": []} if spec.user else {}
        server = subprocess.Popen(spec.command, env=environ, stderr=subprocess.DEVNULL, **as_user)
        try:
            asyncio.run(postgres.wait_until_answers())
            yield Path(name)
        finally:
            server.send_signal(spec.stop_signal)
            server.wait(20)
