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
FIRST_PASSWORD = "first_password"  # noqa: S105
"""File of the data dir."""


@dataclass(frozen=True, slots=True)
class Login:
    """The first admin account; `password` is empty once it has been shown."""

    username: str
    password: str


async def prepare(env: Env, environment: Mapping[str, str], output: ChildOutput) -> Login:
    """Bring the database up to date; raise `CannotStart` with the last lines where it fails."""
    # A first start may be killed between making the account and showing its password.
    was_never_shown = (env.data_dir / FIRST_PASSWORD).exists()
    password = env["KVCM_ADMIN_PASSWORD"] or _first_password(env)
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
    if not report["created"] and not was_never_shown:
        password_was_shown(env)
        return Login(username=report["username"], password="")
    return Login(username=report["username"], password=password)


def _first_password(env: Env) -> str:
    """The random first password; it stays in a file until it was shown."""
    path = env.data_dir / FIRST_PASSWORD
    if not path.exists():
        draft = path.with_name(f".{FIRST_PASSWORD}.{secrets.token_hex(4)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(12))
        draft.rename(path)
    return path.read_text()


def password_was_shown(env: Env) -> None:
    (env.data_dir / FIRST_PASSWORD).unlink(missing_ok=True)
