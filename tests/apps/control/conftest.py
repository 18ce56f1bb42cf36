"""A control process on free ports, its AdminService over a real channel and over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import redis

from apps.common.actor import Role
from apps.control.process import ControlProcess
from kvcm_platform.pb import admin_service_pb2_grpc as pb_grpc
from kvcm_platform.settings.env import Env
from tests.factories.actors import make_token

Metadata = tuple[tuple[str, str], ...]


@dataclass
class Control:
    """A running control process; `stub` sends `metadata` with `call`."""

    env: Env
    process: ControlProcess
    stub: pb_grpc.AdminServiceStub
    metadata: Metadata
    stop: Callable[[], None]

    def call(self, method: str, request: Any, metadata: Metadata | None = None) -> Any:
        sent = self.metadata if metadata is None else metadata
        return getattr(self.stub, method)(request, timeout=10, metadata=sent)

    def post(
        self, path: str, body: bytes | dict[str, Any], token: str | None = None, port: int | None = None
    ) -> tuple[int, Any]:
        """Status and parsed body of a POST, to the admin HTTP port unless another is given."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.process.http_port}{path}", data, method="POST"
        )
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else None


class _Runner:
    """The process's event loop in a thread of its own."""

    def __init__(self, process: ControlProcess) -> None:
        self.process = process
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self.process.run())

    def __enter__(self) -> ControlProcess:
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self.process.is_listening.wait(), self._loop)
        listening.result(40)
        return self.process

    def __exit__(self, *_: object) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self.process.stop)
        self._thread.join(40)
        assert not self._thread.is_alive()
        self._loop.close()


Start = Callable[..., Control]


@pytest.fixture
def start_control(transactional_db, index: redis.Redis, sent: list[str], tmp_path: Path) -> Iterator[Start]:
    """Starts control processes; variables of the environment may be given."""
    running: list[tuple[_Runner, grpc.Channel]] = []

    def start(token: str = "", **environ: str) -> Control:
        env = Env({"KVCM_DATA_DIR": str(tmp_path), **environ})
        runner = _Runner(ControlProcess(env, rpc_port=0, http_port=0, debug_port=0))
        process = runner.__enter__()
        channel = grpc.insecure_channel(f"127.0.0.1:{process.rpc_port}")
        running.append((runner, channel))
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        return Control(env, process, pb_grpc.AdminServiceStub(channel), metadata, runner.__exit__)

    yield start
    for runner, channel in running:
        channel.close()
        runner.__exit__()


@pytest.fixture
def control(start_control: Start) -> Control:
    """A control process, called with an admin's token."""
    return start_control(make_token(Role.ADMIN))
