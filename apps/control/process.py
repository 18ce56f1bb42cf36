"""Puts the control process together and runs it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import structlog

from apps.common.redis_client import index_client
from apps.control.access import AdminAccess
from apps.control.calls.call import Rpc
from apps.control.dispatcher import DEBUG_RPCS, RPCS, Dispatcher
from apps.control.doors import http, rpc
from apps.control.duties import Duties
from apps.control.leader import Leader
from apps.control.meta_link import MetaLink
from apps.control.node import Node
from kvcm_platform.metadata_service.limits import DoorLimits
from kvcm_platform.metadata_service.serving import HttpServer, listen, until
from kvcm_platform.settings.env import Env

log = structlog.get_logger(__name__)
GRACE_SECONDS = 3.0
CALL_THREADS = 8
DUTY_THREADS = 9


class ControlProcess:
    """One control process. Its ports are known once it listens; 0 asks for a free one.

    `debug_port` is that of DebugService over HTTP; None where the service is not enabled.
    """

    def __init__(
        self,
        env: Env,
        *,
        rpc_port: int | None = None,
        http_port: int | None = None,
        debug_port: int | None = None,
    ) -> None:
        self._env = env
        self._debug_rpcs = list(DEBUG_RPCS.values()) if env["KVCM_DEBUG_SERVICE"] else []
        if self._debug_rpcs and debug_port is None:
            debug_port = env.debug_http_port
        self.debug_port = debug_port if self._debug_rpcs else None
        self.rpc_port = env["KVCM_ADMIN_RPC_PORT"] if rpc_port is None else rpc_port
        self.http_port = env["KVCM_ADMIN_HTTP_PORT"] if http_port is None else http_port
        self._limits = DoorLimits.of(env)
        # Calls and duties do not wait for each other's threads.
        self._call_threads = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="call")
        self._duty_threads = ThreadPoolExecutor(DUTY_THREADS, thread_name_prefix="duty")
        self.leader = Leader(index_client, env.node_id, env["KVCM_LEADER_LEASE_MS"])
        meta = MetaLink(env, self._limits.message_bytes)
        self._node = Node(
            env=env, leader=self.leader, meta=meta, campaign_delay_ms=env["KVCM_LEADER_LEASE_MS"]
        )
        access = AdminAccess(env["KVCM_ADMIN_AUTH"], env.internal_token)
        self._dispatcher = Dispatcher(self._node, access, self._call_threads)
        self.duties = Duties(self.leader, env.node_id, self._duty_threads)
        self._stop = asyncio.Event()
        self.is_listening = asyncio.Event()

    def stop(self) -> None:
        """Ask the process to end in order."""
        self._stop.set()

    async def run(self) -> None:
        """Serves until `stop`; then takes no more calls, ends those in flight, and gives the lease back."""
        host = f"[{self._env.bind}]" if ":" in self._env.bind else self._env.bind
        rpcs = list(RPCS.values())
        rpc_server = await rpc.build_server(self._dispatcher, [*rpcs, *self._debug_rpcs], self._limits)
        self.rpc_port = rpc_server.add_insecure_port(f"{host}:{self.rpc_port}")
        self.http_port, http_server, serving = self._serve_http(self.http_port, rpcs)
        http_servers, tasks = [http_server], [serving]
        if self.debug_port is not None:
            self.debug_port, http_server, serving = self._serve_http(self.debug_port, self._debug_rpcs)
            http_servers.append(http_server)
            tasks.append(serving)
        await rpc_server.start()
        duties = asyncio.create_task(self.duties.run())
        log.info("control service is up", rpc_port=self.rpc_port, http_port=self.http_port, pid=os.getpid())
        self.is_listening.set()
        await until(self._stop, [*tasks, duties])
        for http_server in http_servers:
            http_server.should_exit = True
        await rpc_server.stop(GRACE_SECONDS)
        duties.cancel()
        results = await asyncio.gather(*tasks, duties, return_exceptions=True)
        self._call_threads.shutdown(wait=True)
        self._duty_threads.shutdown(wait=True)
        self.duties.stop()
        self._node.meta.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _serve_http(self, port: int, rpcs: list[Rpc]) -> tuple[int, HttpServer, asyncio.Task[None]]:
        """Begins to serve the HTTP form of `rpcs`: the port, the server, and the task that runs it."""
        listening = listen(self._env.bind, port)
        app = http.build_app(self._dispatcher, rpcs, self._limits)
        server = HttpServer(app, GRACE_SECONDS, self._limits.header_bytes)
        return listening.getsockname()[1], server, asyncio.create_task(server.serve(sockets=[listening]))


async def run_until_signal(env: Env) -> None:
    """The control process as a command runs it."""
    process = ControlProcess(env)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.stop)
    await process.run()
