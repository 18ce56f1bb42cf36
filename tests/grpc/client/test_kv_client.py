"""The clients of keys and values against real metadata processes, with the values' bytes."""

from __future__ import annotations

import itertools

import pytest

from kvcm_platform.client import BlockingKvClient, Connection, KvClient, KvcmError
from kvcm_platform.core.types import TrimStrategy
from kvcm_platform.transfer import FileTransfer
from tests.support.data_plane import VALUE_BYTES, value_instance

from .metadata_processes import MetadataProcesses

_numbers = itertools.count(0x5000)


@pytest.fixture
def me(shared_platform: MetadataProcesses) -> str:
    """Id of an instance that no other test knows."""
    number = next(_numbers)
    shared_platform.publish(value_instance(f"values-{number}", number))
    return f"values-{number}"


@pytest.fixture
def connection(shared_platform: MetadataProcesses) -> Connection:
    return Connection(shared_platform.endpoint, timeout_seconds=5)


def test_values_are_written_found_and_removed(connection: Connection, me: str) -> None:
    values = {"short": b"x", "long": bytes(range(256)) * (VALUE_BYTES // 256), "über": b"abc" * 100}
    with BlockingKvClient(connection) as client, FileTransfer() as files:
        (storage,) = client.register_instance("default", me)
        assert (storage.name, storage.type) == ("nfs_01", "file")
        info = client.get_instance_info(me)
        assert (info.instance_group, info.instance_id) == ("default", me)
        keys = [*values, "short"]
        started = client.put_start(me, keys, sizes=[len(values[key]) for key in keys])
        assert started.mask == (False, False, False, True)
        assert list(started.to_write_indexes) == [0, 1, 2]
        for index, location in zip(started.to_write_indexes, started.locations, strict=True):
            files.write(location.specs[0].uri, values[keys[index]])
        client.put_finish(me, started.session_id, [True, True, True])
        found = client.get(me, ["über", "nothing", "long", "short"])
        assert found.hits == (True, False, True, True)
        assert [place.is_placeholder for place in found.locations] == [False, True, False, False]
        read = [files.read(place.specs[0].uri) for place in found.locations if not place.is_placeholder]
        assert read == [values["über"], values["long"], values["short"]]
        client.remove(me, ["long"])
        assert client.get(me, list(values)).hits == (True, False, True)
        client.trim(me, TrimStrategy.REMOVE_ALL_CACHE)
        assert client.get(me, list(values)).hits == (False, False, False)


async def test_from_an_event_loop(connection: Connection, me: str) -> None:
    async with KvClient(connection) as client:
        await client.register_instance("default", me, value_bytes=VALUE_BYTES)
        started = await client.put_start(me, ["a", "b"], timeout_seconds=30)
        with pytest.raises(KvcmError, match="INVALID_ARGUMENT: success_blocks"):
            await client.put_finish(me, started.session_id, [True])
        await client.put_finish(me, started.session_id, [True, False])
        assert (await client.get(me, ["a", "b"])).hits == (True, False)
        with pytest.raises(KvcmError, match="INVALID_ARGUMENT: value_sizes"):
            await client.put_start(me, ["c"], sizes=[VALUE_BYTES + 1])
        with pytest.raises(KvcmError, match="INSTANCE_NOT_EXIST"):
            await client.get("nobody", ["a"])
