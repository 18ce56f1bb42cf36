"""An index of a million blocks: prompts of one instance, written through the protocol as an engine would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from kvcm_platform.storage import marker
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.platform_process import short_data_dir
from tests.support.valkey import ValkeyServer, valkey_server

INSTANCE = "model-a"
FIRST_KEY = 1 << 60
"""As large as hashes are: 16 hex digits in a URI, 9 bytes in a request."""
SIZES = (1, 64, 512, 4096)
PROMPT = sum(SIZES)
"""Blocks of a prompt: a part of its own for each size, so that a size warms no other's chunks."""
PROMPTS = 214
BLOCKS = PROMPT * PROMPTS
BATCH = 512
SERVICE = "/kv_cache_manager.proto.meta.MetaService/"
ROOT = Path(__file__).parents[2]
OPTIONS = [("grpc.max_receive_message_length", -1)]


def part(prompt: int, size: int) -> range:
    """The keys of the part of a prompt that has `size` blocks."""
    start = FIRST_KEY + prompt * PROMPT + sum(other for other in SIZES if other < size)
    return range(start, start + size)


def match_of(keys: range, trace_id: str = "bench") -> bytes:
    request = pb.GetCacheLocationRequest(
        trace_id=trace_id, instance_id=INSTANCE, query_type=pb.QT_PREFIX_MATCH, block_keys=keys
    )
    return bytes(request.SerializeToString())


def write(stub: MetaServiceStub, keys: range | list[int], instance_id: str = INSTANCE) -> None:
    started = stub.StartWriteCache(
        pb.StartWriteCacheRequest(instance_id=instance_id, block_keys=keys, write_timeout_seconds=60)
    )
    assert len(started.locations) == len(keys), started.header
    finished = stub.FinishWriteCache(
        pb.FinishWriteCacheRequest(
            instance_id=instance_id,
            write_session_id=started.write_session_id,
            success_blocks=pb.BlockMask(offset=len(keys)),
        )
    )
    assert finished.header.status.code == pb.OK, finished


@dataclass
class Platform:
    """A Valkey and metadata processes over it, by name."""

    valkey: ValkeyServer
    folder: Path
    processes: dict[str, MetadataProcess] = field(default_factory=dict)

    def pid(self, name: str) -> int:
        return self.processes[name].process.pid

    @contextmanager
    def stub(self, name: str) -> Iterator[MetaServiceStub]:
        with grpc.insecure_channel(self.processes[name].rpc, options=OPTIONS) as channel:
            yield MetaServiceStub(channel)

    @contextmanager
    def process(self, name: str, **variables: str) -> Iterator[MetadataProcess]:
        with metadata_process(self.valkey.url, self.folder, **variables) as process:
            self.processes[name] = process
            yield process
            del self.processes[name]

    def fill(self, name: str, keys: range) -> None:
        with self.stub(name) as stub:
            for start in range(0, len(keys), BATCH):
                write(stub, keys[start : start + BATCH])


@contextmanager
def platform() -> Iterator[Platform]:
    """With one nfs storage under a short path, so that URIs have 110 bytes."""
    with short_data_dir() as folder, valkey_server() as valkey:
        client = valkey.client()
        root = folder / "nfs"
        root.mkdir()
        marker.mark(str(root))
        entries = (storage(root), group(), instance(), instance("other", 0xDEF))
        registry.publish(client, version=1, changed=entries)
        client.close()
        yield Platform(valkey, folder)
