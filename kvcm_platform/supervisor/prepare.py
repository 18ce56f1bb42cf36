"""Runs `manage.py prepare` (migrations and first objects) and reads what it reports."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from kvcm_platform.settings.env import Env

from .errors import CannotStart
from .output import ChildOutput
from .roster import ROOT
from .tether import tethered

_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Login:
    """The first admin account; `password` is empty once it has been shown."""

    username: str
    password: str


async def prepare(env: Env, environment: Mapping[str, str], output: ChildOutput) -> Login:
    """Bring the database up to date; raise `CannotStart` with the last lines where it fails."""
    password = env["KVCM_ADMIN_PASSWORD"] or secrets.token_urlsafe(12)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "manage.py"),
        "prepare",
        env={**environment, "KVCM_ADMIN_PASSWORD": password},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=tethered(signal.SIGKILL),
    )
    try:
        async with asyncio.timeout(_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise CannotStart(f"The database could not be prepared within {_SECONDS:.0f} s.") from error
    except asyncio.CancelledError:
        process.kill()
        raise
    lines = printed.decode(errors="replace").splitlines()
    for line in lines[:-1] if process.returncode == 0 else lines:
        output.line(line)
    if process.returncode != 0:
        tail = "\n".join(f"  {line}" for line in lines[-20:])
        raise CannotStart(f"The database could not be prepared:\n{tail}")
    report = json.loads(lines[-1])
    return Login(username=report["username"], password=password if report["created"] else "")
