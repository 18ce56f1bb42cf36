"""One supervised process: started, read, restarted with back-off, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from .errors import KeepsDying
from .output import ChildOutput
from .spec import ChildSpec
from .tether import tethered

BACK_OFF_FIRST_SECONDS = 0.2
BACK_OFF_MOST_SECONDS = 10.0
DEATHS_ALLOWED = 6
"""A child that dies so often without ever having been ready will not get better by itself."""
_CALM_SECONDS = 10.0
"""Ready for so long, a child has earned a quick restart again."""
_READ_BYTES = 1 << 16


class Child:
    """Keeps one process alive. `on_change` is called after each start, death and readiness."""

    def __init__(
        self,
        spec: ChildSpec,
        environment: Mapping[str, str],
        output: ChildOutput,
        on_change: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.state = "waiting"
        self.restarts = 0
        self.started_at = 0.0
        self._environment = {**environment, **spec.environment}
        self._output = output
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready_since: float | None = None
        self._was_ready = False
        self._deaths_in_a_row = 0

    @property
    def pid(self) -> int | None:
        """The running process, if one runs now."""
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def is_ready(self) -> bool:
        return self._ready_since is not None

    def mark_ready(self) -> None:
        """Readiness is seen from outside (a heartbeat, an answered PING)."""
        if self._ready_since is None:
            self._ready_since = time.monotonic()
            self._was_ready = True
            self.state = "ready"
            self._on_change()

    async def keep_running(self) -> None:
        """Start and restart the process for ever; raise `KeepsDying` when that is hopeless.

        Cancelling ends the watch, not the process: `stop` does that, in its turn.
        """
        while True:
            code = await self._run_once()
            calm = self._ready_since is not None and time.monotonic() - self._ready_since > _CALM_SECONDS
            self._deaths_in_a_row = 1 if calm else self._deaths_in_a_row + 1
            self._ready_since = None
            self.restarts += 1
            self.state = "restarting"
            self._on_change()
            if self._deaths_in_a_row >= DEATHS_ALLOWED and not self._was_ready:
                self.state = "failed"
                raise KeepsDying(self.spec.name, self._deaths_in_a_row, self._output.last_lines)
            delay = min(BACK_OFF_MOST_SECONDS, BACK_OFF_FIRST_SECONDS * 2 ** (self._deaths_in_a_row - 1))
            self._output.line(f"WARNING {_ending(code)}; it is started again in {delay:g} s")
            await asyncio.sleep(delay)

    async def _run_once(self) -> int:
        self._process = process = await asyncio.create_subprocess_exec(
            *self.spec.command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.spec.kept_descriptors,
            user=self.spec.user,
            group=self.spec.group,
            extra_groups=None if self.spec.user is None else [],
            preexec_fn=tethered(self.spec.death_signal),
        )
        self._reading = asyncio.create_task(self._read(process))
        self.started_at = time.time()
        self.state = "starting"
        self._on_change()
        code = await process.wait()
        await self._end_of_process(process.pid)
        return code

    async def _end_of_process(self, group: int) -> None:
        """End what the process left behind, and take its last words."""
        _signal_group(group, signal.SIGKILL)
        if self._reading:
            # Whoever left the process group may hold the pipe open; that is not waited for.
            await asyncio.wait({self._reading}, timeout=0.2)
            self._reading.cancel()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Pass whole lines on; a line without end is cut rather than gathered for ever."""
        if process.stdout is None:
            return
        rest = b""
        while chunk := await process.stdout.read(_READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _READ_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._output.line(line.decode(errors="replace").rstrip("\r"))
        if rest:
            self._output.line(rest.decode(errors="replace"))

    async def stop(self, seconds: float) -> None:
        """The stop signal, then after `seconds` SIGKILL, both to the whole process group."""
        process = self._process
        if process is not None and process.returncode is None:
            _signal_group(process.pid, self.spec.stop_signal)
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                self._output.line(f"WARNING did not stop within {seconds:.1f} s and was killed")
                _signal_group(process.pid, signal.SIGKILL)
                await process.wait()
            await self._end_of_process(process.pid)
        self.state = "stopped"

    def kill(self) -> None:
        """End it now; for an operator who asks a second time."""
        if self.pid is not None:
            _signal_group(self.pid, signal.SIGKILL)

    def last_lines(self) -> list[str]:
        return self._output.last_lines

    def close(self) -> None:
        self._output.close()


def _signal_group(group: int, number: signal.Signals) -> None:
    # The leader may be gone already while others of its group are not, or all may be.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
