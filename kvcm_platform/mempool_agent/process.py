"""The agent from its start to SIGTERM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

from kvcm_platform.core.pool_layout import CHUNK_BYTES
from kvcm_platform.pb import mempool_agent_pb2
from kvcm_platform.pb.mempool_agent_pb2_grpc import add_MemPoolAgentServicer_to_server

from .options import Options
from .segment import CannotServe, Segment, claim_segment, give_up
from .service import AgentService
from .streams import MAX_STREAMS

log = structlog.get_logger(__name__)
GRACE_SECONDS = 5.0
FIGURES_SECONDS = 60.0
"""How often the figures go to the log, where they changed."""

_SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", 2 * CHUNK_BYTES),
    ("grpc.max_send_message_length", 2 * CHUNK_BYTES),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.absolute_max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", 4 * MAX_STREAMS),
    # A second agent on this port is to fail, not to share it.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
)


async def run(options: Options) -> None:
    """Serves until SIGTERM or SIGINT. The node's lock is held. Raises CannotServe."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    stopped = threading.Event()

    def on_signal() -> None:
        stopped.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    server = grpc.aio.server(options=_SERVER_OPTIONS)
    # The port comes first: reserving much memory only to find it taken would be a pity.
    try:
        port = server.add_insecure_port(f"{options.host}:{options.port}")
    except RuntimeError as error:
        raise CannotServe(f"port {options.port} of {options.bind} cannot be had: {error}") from error
    segment = await asyncio.to_thread(_claim, options, stopped)
    service = AgentService(segment, options.media_type, options.token)
    add_MemPoolAgentServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    health = health_aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    name = mempool_agent_pb2.DESCRIPTOR.services_by_name["MemPoolAgent"].full_name
    for service_name in ("", name):
        await health.set(service_name, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    _announce(options, segment, port)
    figures = asyncio.create_task(_log_figures(service))
    await stop.wait()
    figures.cancel()
    await health.enter_graceful_shutdown()
    await server.stop(GRACE_SECONDS)
    if options.removes_at_end:
        give_up(segment.path)
    log.info("memory pool agent stopped", node_id=options.node_id, is_removed=options.removes_at_end)


def _claim(options: Options, stopped: threading.Event) -> Segment:
    return claim_segment(
        options.directory,
        options.node_id,
        options.size_bytes,
        may_take_over=not options.is_discarding,
        file_mode=options.file_mode,
        is_stopped=stopped.is_set,
    )


def _announce(options: Options, segment: Segment, port: int) -> None:
    """The ready line on standard output."""
    superblock = segment.superblock
    ready = {
        "ready": True,
        "node_id": superblock.node_id,
        "segment_id": superblock.segment_id,
        "address": f"{options.host}:{port}",
        "size_bytes": superblock.layout.size_bytes,
        "path": str(segment.path),
        "is_taken_over": segment.is_taken_over,
        "pid": os.getpid(),
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    log.info("memory pool agent is up", **ready)


async def _log_figures(service: AgentService) -> None:
    before = ""
    while True:
        await asyncio.sleep(FIGURES_SECONDS)
        figures = service.figures()
        if str(figures) != before:
            before = str(figures)
            log.info("figures", **{field.name: value for field, value in figures.ListFields()})
