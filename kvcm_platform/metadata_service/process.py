"""Puts one metadata process together and runs it until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal

import grpc
import structlog
from redis.exceptions import RedisError

from kvcm_platform.core import native
from kvcm_platform.core.admission import Admission
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.token_keys import TokenKeys
from kvcm_platform.core.use_cases import Limits
from kvcm_platform.index import keyspace, leaving
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.index.homecoming import come_home, take_memory_back
from kvcm_platform.index.permits import RedisPermits
from kvcm_platform.index.placed import PlacedConnection
from kvcm_platform.index.records import WireRecords
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.index.request_log import RequestLog
from kvcm_platform.index.search_cache import SearchCache
from kvcm_platform.settings.env import Env

from .access import MetaAccess
from .allocator import keep_freed_memory
from .background import Background
from .control_link import ControlLink
from .faults import Faults
from .file_preparer import DirectoryFiles
from .kv_handlers import KvHandlers
from .limits import DoorLimits
from .local_backend import LocalBackend
from .meta_handlers import Endpoint, MetaHandlers
from .registration import Registrar
from .serving import HttpServer, listen, until
from .tls import ServerTls
from .transports import grpcio, http
from .transports.fast.limits import Limits as FastLimits
from .transports.fast.routes import build_routes
from .transports.fast.server import FastServer

log = structlog.get_logger(__name__)
GRACE_SECONDS = 5.0
TOKEN_MEMO_BYTES = 32 << 20
"""About four million token ids; unused where the compiled loop was built."""
START_SECONDS = 30.0


class Process:
    def __init__(self, env: Env) -> None:
        self._env = env
        self._tls = ServerTls.of(env)
        self._limits = DoorLimits.of(env)
        platform = connection_to(env.redis_url)
        self.mirror = RegistryMirror(platform, env.redis_url)
        self.connection = PlacedConnection(platform, lambda: self.mirror.places, connection_to)
        self.local = None
        if env["KVCM_INDEX_BACKEND"] != "redis":
            self.local = LocalBackend(env, self.connection, self.mirror)
        self.index = self.local.index if self.local else RedisIndex(self.connection)
        name = f"metadata:{env.node_id}:{os.getpid()}"
        self.facts = FactsBuffer(name)
        self.requests = RequestLog(name)
        faults = Faults(self.connection) if env["KVCM_DEBUG_SERVICE"] else None
        self.control = ControlLink(
            env.control_address,
            env.internal_token,
            self._limits.message_bytes,
            has_debug_service=faults is not None,
        )
        limits = Limits(
            max_keys=env["KVCM_MAX_KEYS"],
            max_tokens=env["KVCM_MAX_TOKENS"],
            max_sessions=env["KVCM_MAX_SESSIONS"],
            default_write_timeout=env["KVCM_WRITE_TIMEOUT_S"],
        )
        self.search_cache = SearchCache(
            self.index, env["KVCM_SEARCH_CACHE_MB"] << 20, is_strict=env["KVCM_STRICT_READS"]
        )
        permits = RedisPermits(self.index.connection)
        service = MetadataService(
            *(self.index, self.search_cache, WireRecords(), self.mirror, self.facts),
            Admission(permits, self.facts),
            limits,
            TokenKeys(native.load_built(), TOKEN_MEMO_BYTES),
            DirectoryFiles(env["KVCM_TOUCH_TIMEOUT_MS"] / 1000),
            self.requests,
        )
        host = "localhost" if env.is_loopback else env.bind
        endpoint = Endpoint(env.node_id, host, env["KVCM_META_RPC_PORT"], env["KVCM_META_HTTP_PORT"])
        access = MetaAccess(env.meta_auth, env["KVCM_META_NETWORKS"], env.internal_token, self.connection)
        registrar = Registrar(self.mirror, self.control)
        kv = KvHandlers(service, self.mirror, registrar, env["KVCM_KV_VALUE_BYTES"])
        self.handlers = MetaHandlers(
            *(service, self.mirror, registrar, kv, self.facts, access, endpoint, self._limits), faults
        )
        self.background = Background(
            self.connection,
            self.index,
            self.mirror,
            self.search_cache,
            self.facts,
            permits,
            self.handlers.stand_down,
            env.node_id,
            faults,
            self.requests,
        )

    async def run(self) -> None:
        """Serves until a signal; then stops taking calls, ends those in flight, and flushes."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await self._connect(stop)
        rpc_server = await self._rpc_server()
        app = http.build_app(self.handlers, self._limits)
        http_server = HttpServer(app, GRACE_SECONDS, self._limits.header_bytes, self._tls)
        http_socket = listen(self._env.bind, self._env["KVCM_META_HTTP_PORT"], is_shared=True)
        await rpc_server.start()
        tasks = [
            asyncio.create_task(self.background.run()),
            asyncio.create_task(self.mirror.run()),
        ]
        if self.local is not None:
            tasks.append(asyncio.create_task(self.local.run()))
        serving = asyncio.create_task(http_server.serve(sockets=[http_socket]))
        log.info("metadata service is up", rpc_port=self._env["KVCM_META_RPC_PORT"], pid=os.getpid())
        await until(stop, [*tasks, serving])
        http_server.should_exit = True
        await rpc_server.stop(GRACE_SECONDS)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, serving, return_exceptions=True)
        try:
            await self.background.drain()
        except RedisError as error:
            log.warning("last flush failed", reason=str(error))
        if self.local is not None:
            await self.local.close()
        await self.control.close()
        await self.connection.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _rpc_server(self) -> grpc.aio.Server | FastServer:
        """The transport that KVCM_TRANSPORT names, bound to the port of MetaService."""
        port = self._env["KVCM_META_RPC_PORT"]
        keep_freed_memory()
        if self._env["KVCM_TRANSPORT"] == "fast":
            return FastServer(
                build_routes(self.handlers, self.control),
                listen(self._env.bind, port, is_shared=True),
                FastLimits.of(self._limits),
                self._tls.context() if self._tls else None,
            )
        server = await grpcio.build_server(self.handlers, self.control, self._limits)
        address = f"{self._host()}:{port}"
        if self._tls is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, self._tls.credentials())
        return server

    async def _take_instances_back(self) -> None:
        """Those whose index was in a process of this node, should the backend have been another one."""
        gone = leaving.decode(await self.connection.call("HGETALL", keyspace.LEAVING))
        entries = [*self.mirror.current.instances.values(), *gone]
        await come_home(self.index, entries, self._env.node_id)
        await take_memory_back(self.index, self.mirror.current.storages.values(), self._env.node_id)

    def _host(self) -> str:
        return f"[{self._env.bind}]" if ":" in self._env.bind else self._env.bind

    async def _connect(self, stop: asyncio.Event) -> None:
        """Waits for Redis at start; gives up after START_SECONDS."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not stop.is_set():
            try:
                await self.connection.connect()
                await self.mirror.refresh()
                if self.local is None:
                    await self._take_instances_back()
                return
            except RedisError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)
