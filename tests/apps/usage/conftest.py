from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest
import redis

from apps.common.redis_client import figures_client
from apps.usage.services import Sampler
from kvcm_platform.core.registry import (
    GroupEntry,
    InstanceEntry,
    LocationSpecInfo,
    ModelDeployment,
    Quota,
    StorageEntry,
)
from kvcm_platform.core.types import StorageType
from kvcm_platform.index import functions, keyspace, registry
from kvcm_platform.index.facts import FactsBuffer

NFS = 4 << 16
"""How vectors name storages of this type: plus the storage's number (WIRE.md: ST_NFS is 4)."""


class Platform:
    """What the data plane would leave in Redis, at times of the test's choosing."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.now = 1_800_000_000
        """A whole hour."""
        self._version = 0
        self._sequence = 0

    def clock(self) -> float:
        return self.now + 0.5

    def publish(self, *changed, removed=()) -> None:
        self._version += 1
        registry.publish(self.client, version=self._version, changed=list(changed), removed=list(removed))

    def storage(self, name: str = "nfs_a", number: int = 1, **members) -> None:
        self.publish(StorageEntry(name=name, number=number, type=StorageType.NFS, spec={}, **members))

    def group(self, name: str = "chat", number: int = 1, capacity: int = 1000, **members) -> None:
        quota = Quota(capacity, members.pop("per_type", {}))
        self.publish(
            GroupEntry(name=name, number=number, storage_candidates=("nfs_a",), quota=quota, **members)
        )

    def instance(self, name: str = "model-a", number: int = 10, group: str = "chat", group_number: int = 1):
        self.publish(
            InstanceEntry(
                instance_id=name,
                number=number,
                group=group,
                group_number=group_number,
                block_size=16,
                location_spec_infos=(LocationSpecInfo("tp0", 10),),
                location_spec_groups=(),
                model_deployment=ModelDeployment(model_name="m", dtype="bf16"),
            )
        )

    def hold(self, shard: str = "10:0", group: int = 1, **amounts: tuple[int, int]) -> None:
        """A shard's vector: state (w, s, p, each with the storage's number) -> (bytes, blocks)."""
        self._sequence += 1
        where = {name: f"{NFS + int(name[1:])}:{name[0]}" for name in amounts}
        vector = msgpack.packb(
            [
                {where[name]: size for name, (size, _) in amounts.items()},
                {where[name]: blocks for name, (_, blocks) in amounts.items()},
            ]
        )
        push = functions.name("kvcm_push")
        self.client.fcall(push, 1, keyspace.group(group), shard, 1, self._sequence, vector)

    def happen(self, instance: str = "model-a", *, at: int | None = None, reads=(), writes=(), **amounts):
        """One flush of a metadata process, in the second `at`; `reads` and `writes` are seconds they took."""
        buffer = FactsBuffer("here:1")
        buffer.add(instance, **amounts)
        for kind, calls in (("read", reads), ("write", writes)):
            for seconds in calls:
                buffer.rpc("GetCacheLocation", seconds, False, kind, instance)
        data = buffer.take()[0][-1]
        self.client.execute_command(
            "XADD", keyspace.FACTS, f"{(self.now if at is None else at) * 1000}-*", "d", data
        )


@pytest.fixture
def platform(index: redis.Redis) -> Platform:
    """A storage `nfs_a` (1), a group `chat` on it and an instance `model-a` of blocks of 16 tokens."""
    made = Platform(index)
    registry.ensure_functions(index)
    made.storage(capacity_bytes=5000)
    made.group()
    made.instance()
    return made


Step = Callable[..., int]


@pytest.fixture
def sampler(platform: Platform) -> Sampler:
    return Sampler(platform.clock)


@pytest.fixture
def run(platform: Platform, sampler: Sampler) -> Step:
    """Let seconds pass, with a look in each."""

    def go(seconds: int, by: Sampler | None = None) -> int:
        points = 0
        for _ in range(seconds):
            platform.now += 1
            points += (by or sampler).step(figures_client())
        return points

    return go
