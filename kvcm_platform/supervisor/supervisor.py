"""The supervisor: starts the platform's processes, keeps them running, stops them all.

Valkey comes first. The data plane needs nothing else and starts while the database is
prepared; the processes with Django follow together. Every child is watched by a task of one
group, so that a hopeless child ends the start-up or the run at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

from redis.exceptions import RedisError, ResponseError

from kvcm_platform.index import blocking
from kvcm_platform.settings.env import Env

from . import progress, roster, valkey
from .announce import announcement
from .child import Child
from .data_dir import claim_valkey_files
from .environment import for_children
from .errors import CannotStart, KeepsDying
from .output import ChildOutput, LogFile, Terminal
from .postgres import EMBEDDED, Postgres
from .prepare import password_was_shown, prepare
from .spec import ChildSpec

STOP_SECONDS = 10.0
"""From the request to stop until nothing is left."""
_STAGE_RESERVE_SECONDS = 1.5
"""Of that, what a slow stage leaves to each stage after it."""
_READY_SECONDS = 180.0
_VALKEY_SECONDS = 180.0
"""Loading a large append-only file takes its time."""
_EXTERNAL_REDIS_SECONDS = 5.0
_STEADY_SECONDS = 5.0
"""A child without heartbeat counts as ready after so long."""
_LOOK_SECONDS = 0.1
_PUBLISH_SECONDS = 5.0


class Supervisor:
    """One run of the platform on one data directory, which the caller has claimed."""

    def __init__(self, env: Env, terminal: Terminal, *, with_demo: bool = False) -> None:
        self._env = env
        self._terminal = terminal
        self._with_demo = with_demo
        self._environment = for_children(env)
        self._children: list[Child] = []
        self._changed = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._client = blocking.async_client(env.redis_url)

    async def run(self) -> int:
        """Run until asked to stop or until it is hopeless; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
        life = asyncio.create_task(self._live())
        asked = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait({life, asked}, return_when=asyncio.FIRST_COMPLETED)
            life.cancel()
            return await self._outcome(life)
        finally:
            asked.cancel()
            await self._stop_all()
            with suppress(RedisError, OSError):
                await self._client.aclose()

    def _on_signal(self) -> None:
        if self._stop_asked.is_set():
            for child in self._children:
                child.kill()
            return
        self._terminal.say("\nStopping. Once more kills at once.")
        self._stop_asked.set()

    async def _outcome(self, life: asyncio.Task[None]) -> int:
        """The exit code, after saying why the run ended if nobody asked for it."""
        try:
            await life
        except asyncio.CancelledError:
            return 0
        except BaseExceptionGroup as group:
            hopeless, other = group.split(lambda error: isinstance(error, CannotStart | KeepsDying))
            if hopeless is None or other is not None:
                raise
            error = hopeless.exceptions[0]
            self._terminal.say(f"\n{error}")
            if isinstance(error, KeepsDying):
                self._terminal.say("Its last lines:")
                for line in error.last_lines:
                    self._terminal.say(f"  {line}")
            self._terminal.say(f"Everything stops now. Logs: {self._env.data_dir / 'logs'}")
        return 1

    async def _live(self) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            if self._env["KVCM_REDIS_URL"]:
                await self._require_external_redis()
            else:
                await self._start_valkey(group)
            await progress.forget(self._client, self._env.node_id)
            group.create_task(self._publish_changes())
            group.create_task(self._watch_readiness())
            for spec in roster.metadata(self._env):
                self._start(group, spec)
            if self._env["DATABASE_URL"] == EMBEDDED:
                await self._start_postgres(group)
            login = await prepare(self._env, self._environment, self._output("prepare"))
            for spec in roster.django(self._env):
                self._start(group, spec)
            await self._until_ready()
            self._terminal.say(announcement(self._env, login, time.monotonic() - began))
            password_was_shown(self._env)
            if self._with_demo:
                self._start(group, roster.demo())

    def _start(self, group: asyncio.TaskGroup, spec: ChildSpec) -> Child:
        child = Child(spec, self._environment, self._output(spec.name), self._changed.set)
        self._children.append(child)
        group.create_task(child.keep_running())
        return child

    def _output(self, name: str) -> ChildOutput:
        return ChildOutput(name, LogFile(self._env.data_dir / "logs" / f"{name}.log"), self._terminal)

    async def _require_external_redis(self) -> None:
        if not await valkey.wait_until_answers(self._client, _EXTERNAL_REDIS_SECONDS):
            raise CannotStart("The server that KVCM_REDIS_URL names does not answer.")
        with suppress(ResponseError):  # A user without the right to ask may still be served.
            version = str((await self._client.info("server"))["redis_version"])
            if not valkey.is_new_enough(version):
                raise CannotStart(f"The server that KVCM_REDIS_URL names is {version}; 7.2 is the oldest.")

    async def _start_valkey(self, group: asyncio.TaskGroup) -> None:
        socket = self._env.valkey_socket
        binary = valkey.server_binary()
        configuration = valkey.write_configuration(self._env.data_dir, socket)
        if socket.parent != self._env.data_dir:
            self._terminal.say(
                f"The path of the data directory is too long for a socket; Valkey listens on {socket}."
            )
        lock = await asyncio.to_thread(claim_valkey_files, self._env.data_dir)
        child = self._start(group, roster.valkey(binary, configuration, lock))
        if not await valkey.wait_until_answers(self._client, _VALKEY_SECONDS):
            raise CannotStart(f"Valkey did not load its data within {_VALKEY_SECONDS:.0f} s.")
        child.mark_ready()

    async def _start_postgres(self, group: asyncio.TaskGroup) -> None:
        postgres = Postgres(self._env.data_dir)
        child = self._start(group, await asyncio.to_thread(postgres.prepare))
        await postgres.wait_until_answers()
        child.mark_ready()

    async def _watch_readiness(self) -> None:
        """Mark children ready as their heartbeats appear, again after each restart."""
        while not valkey.is_cancelled():
            await asyncio.sleep(_LOOK_SECONDS)
            waiting = [child for child in self._children if child.pid is not None and not child.is_ready]
            if not waiting:
                continue
            with suppress(RedisError, OSError):
                pids = await progress.fresh_pids(self._client, self._env.node_id)
                answering = await valkey.answers(self._client)
                for child in waiting:
                    if child.spec.role:
                        seen = child.pid in pids
                    elif child.spec.name == "valkey":
                        seen = answering
                    else:
                        seen = time.time() - child.started_at > _STEADY_SECONDS
                    if seen:
                        child.mark_ready()

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while late := [child for child in self._children if not child.is_ready]:
            if time.monotonic() > deadline:
                names = ", ".join(child.spec.name for child in late)
                raise CannotStart(f"Not ready after {_READY_SECONDS:.0f} s: {names}.")
            await asyncio.sleep(0.05)

    async def _publish_changes(self) -> None:
        """Tell Redis about the children: at once after a change, else every few seconds.

        A task of its own, so that a slow Redis never delays a restart.
        """
        while not valkey.is_cancelled():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PUBLISH_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            with suppress(RedisError, OSError):
                await progress.publish(self._client, self._env.node_id, self._children)

    async def _stop_all(self) -> None:
        """Stop stage by stage, last started first, within `STOP_SECONDS` altogether."""
        began = time.monotonic()
        by_stage: dict[int, list[Child]] = {}
        for child in self._children:
            by_stage.setdefault(child.spec.stage, []).append(child)
        stages = [by_stage[stage] for stage in sorted(by_stage, reverse=True)]
        for index, members in enumerate(stages):
            left = began + STOP_SECONDS - 0.5 - time.monotonic()
            left -= _STAGE_RESERVE_SECONDS * (len(stages) - index - 1)
            await asyncio.gather(
                *(child.stop(max(0.2, min(left, child.spec.stop_seconds))) for child in members)
            )
        for child in self._children:
            child.close()
        if self._children:
            self._terminal.say(f"Stopped after {time.monotonic() - began:.1f} s.")


def run(env: Env, terminal: Terminal, *, with_demo: bool) -> int:
    """Run one supervisor in this process, which must be the main thread's."""
    os.chdir(roster.ROOT)
    return asyncio.run(_run(env, terminal, with_demo=with_demo))


async def _run(env: Env, terminal: Terminal, *, with_demo: bool) -> int:
    return await Supervisor(env, terminal, with_demo=with_demo).run()
