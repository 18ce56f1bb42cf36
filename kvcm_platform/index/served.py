"""What each instance could give: its served blocks, out of the usage of its shards (the truth)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kvcm_platform.core.registry import InstanceEntry

from .shards import shards_of
from .stats import parse_usage
from .storage_refs import number_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

AT_ONCE = 256
_SERVED = "s"

Served = dict[tuple[int, int], tuple[int, int]]
"""(instance number, storage number) -> (blocks, bytes)."""


async def served_amounts(index: RedisIndex, instances: Iterable[InstanceEntry]) -> Served:
    """Raises redis.RedisError."""
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    shards = [shard for entry in instances for shard in shards_of(entry)]
    for at in range(0, len(shards), AT_ONCE):
        part = shards[at : at + AT_ONCE]
        replies = await index.connection.pipeline([("HGETALL", shard.base) for shard in part])
        for shard, flat in zip(part, replies, strict=True):
            usage = parse_usage(dict(zip(flat[::2], flat[1::2], strict=True)))
            for (ref, state), (size, blocks) in usage.items():
                if state == _SERVED:
                    amounts = found[shard.instance_number, number_of(ref)]
                    amounts[0] += blocks
                    amounts[1] += size
    return {where: (amounts[0], amounts[1]) for where, amounts in found.items() if amounts[0] > 0}


def total(
    served: Served, numbers: Collection[int] | None = None, instance: int | None = None
) -> tuple[int, int]:
    """(blocks, bytes) on these storage numbers, of one instance; None = any."""
    wanted = [
        amounts
        for (owner, number), amounts in served.items()
        if instance in (None, owner) and (numbers is None or number in numbers)
    ]
    return sum(blocks for blocks, _ in wanted), sum(size for _, size in wanted)
