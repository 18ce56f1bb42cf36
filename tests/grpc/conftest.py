from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import ValkeyServer, valkey_server


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[MetadataProcess, ValkeyServer]]:
    """A metadata process over its own Valkey with instances `model-a` and `two` (two specs)."""
    root = tmp_path_factory.mktemp("platform")
    with valkey_server() as valkey:
        client = valkey.client()
        entries = (
            storage(root / "nfs"),
            group(),
            instance(),
            instance("two", 0xDEF, specs=[("tp0", 64), ("tp1", 64)], groups=[("some", ["tp0"])]),
        )
        registry.publish(client, version=1, changed=entries)
        with metadata_process(valkey.url, root) as process:
            yield process, valkey


@pytest.fixture
def process(server) -> MetadataProcess:
    return server[0]


@pytest.fixture
def stub(process) -> Iterator[pb_grpc.MetaServiceStub]:
    with grpc.insecure_channel(process.rpc) as channel:
        yield pb_grpc.MetaServiceStub(channel)
