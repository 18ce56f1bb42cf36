"""Requests that never end, over many connections: what a process holds is bounded, others are served."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from kvcm_platform.index import registry
from tests.grpc.fast.adversary import Adversary
from tests.support.data_plane import group, instance, storage
from tests.support.doors import door_of
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import valkey_server
from tests.unit.fast.wire import DATA, frame, message

PATH = (":path", "/kv_cache_manager.proto.meta.MetaService/GetCacheLocation")
LIMIT = 1 << 20
HELD = LIMIT - 100_000
"""Bytes of a body that the server has and waits for the rest of: eight of these pass, nine do not."""
CONNECTIONS = 14


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetadataProcess]:
    root = tmp_path_factory.mktemp("unfinished")
    with valkey_server() as valkey:
        registry.publish(valkey.client(), version=1, changed=(storage(root), group(), instance()))
        options = {"KVCM_TRANSPORT": "fast", "KVCM_MAX_MESSAGE_MB": "1"}
        with metadata_process(valkey.url, root, **options) as started:
            yield started


def ask(process: MetadataProcess, kind: str) -> str:
    with door_of(process, kind) as door:
        query = {"instance_id": "model-a", "query_type": "QT_PREFIX_MATCH", "block_keys": [1]}
        return str(door.call("GetCacheLocation", query).code)


def test_over_fast(process: MetadataProcess) -> None:
    for _ in range(2):  # what a connection held is free with its end
        with ExitStack() as stack:
            clients = [stack.enter_context(Adversary(process.rpc_port)) for _ in range(CONNECTIONS)]
            body = message(bytes(LIMIT - 5))[:HELD]
            for client in clients:
                client.send(client.caller.headers(1, PATH))
                for at in range(0, HELD, 16_384):
                    client.send(frame(DATA, 0, 1, body[at : at + 16_384]))
                client.ping()
            refused = [client.reader.answers[1] for client in clients if 1 in client.reader.answers]
            assert CONNECTIONS - 9 <= len(refused) <= CONNECTIONS - 8
            assert {answer.status for answer in refused} == {8}
            assert "KVCM_MAX_MESSAGE_MB" in refused[0].text
            assert ask(process, "fast") == "OK"


def received(peer: socket.socket) -> bytes:
    """An answer to its end; less of it where the server has closed already."""
    text = b""
    with suppress(ConnectionError):
        while not text.endswith(b"}") and (part := peer.recv(1 << 16)):
            text += part
    return text


def test_over_http(process: MetadataProcess) -> None:
    head = f"POST /api/getCacheLocation HTTP/1.1\r\nhost: x\r\ncontent-length: {LIMIT}\r\n\r\n".encode()
    for _ in range(2):
        with ExitStack() as stack:
            waiting = []
            for _ in range(CONNECTIONS):
                peer = socket.create_connection(("127.0.0.1", process.http_port), 10)
                waiting.append(stack.enter_context(peer))
                with suppress(ConnectionError):  # refused before it has sent all
                    peer.sendall(head + b" " * HELD)
            texts = b""
            while len(waiting) > 9:
                answered = select.select(waiting, [], [], 10)[0]
                assert answered, "too many are held"
                for peer in answered:
                    waiting.remove(peer)
                    texts += received(peer)
            assert b" 413 " in texts
            assert b"KVCM_MAX_MESSAGE_MB" in texts
            assert ask(process, "fast") == "OK"
