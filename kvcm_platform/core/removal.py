"""Removal by keys and by time (WIRE.md 3.9, section A)."""

from __future__ import annotations

from collections.abc import Sequence

from . import masks
from .errors import invalid
from .masks import Mask
from .ports import TrimMode
from .registry import GroupEntry, InstanceEntry
from .types import TrimStrategy
from .use_cases import Blocks, UseCases, plain

MIN_DELETE_DELAY_MS = 500
"""Readers that got a URI just before a removal have at least this long (DESIGN 4.5)."""
_NAMES = ("begin_timestamp", "end_timestamp")
"""On the wire."""


def trim_span(
    strategy: int,
    begin_ms: int,
    end_ms: int | None,
    now_ms: int,
    names: tuple[str, str] = ("begin", "end"),
) -> tuple[TrimMode, int, int]:
    """What a trim takes: mode, begin and end in the index's ms, inclusive. `end_ms` None = open: up to now.

    Only TIMESTAMP has times of its own. Raises INVALID_ARGUMENT for what is no strategy, and for a span
    that begins after its end; `names`: what the caller calls begin and end.
    """
    match strategy:
        case TrimStrategy.REMOVE_ALL_CACHE:
            return TrimMode.UNTIL, 0, now_ms
        case TrimStrategy.REMOVE_ALL_META:
            return TrimMode.META, 0, now_ms
        case TrimStrategy.TIMESTAMP:
            if end_ms is None:
                return TrimMode.TIME, begin_ms, now_ms
            if begin_ms > end_ms:
                raise invalid(names[0], f"is after {names[1]}")
            return TrimMode.TIME, begin_ms, end_ms
        case _:
            raise invalid("strategy", f"{strategy} is not a trim strategy")


def delete_delay_ms(group: GroupEntry | None) -> int:
    """From a removal to the deletion of the bytes; None = the group is gone."""
    return max(group.reclaim.delay_before_delete_ms if group else 0, MIN_DELETE_DELAY_MS)


class Removal(UseCases):
    def _delete_delay_ms(self, instance: InstanceEntry) -> int:
        return delete_delay_ms(self._group(instance))

    async def remove_cache(self, instance_id: str, blocks: Blocks, keep: Mask) -> None:
        """Removes the blocks outside the mask, WRITING ones too; unknown keys are fine."""
        instance = await self.block_instance(instance_id)
        masks.check(keep)
        keys = masks.unmasked(keep, plain(await self._keys(instance, blocks)))
        await self._remove(instance, keys)

    async def _remove(self, instance: InstanceEntry, keys: Sequence[int]) -> None:
        removed = await self._index.remove(
            instance, list(dict.fromkeys(keys)), self._delete_delay_ms(instance)
        )
        self._facts.add(instance.instance_id, removed_blocks=removed.locations)

    async def trim_cache(self, instance_id: str, strategy: int, begin: int, end: int) -> None:
        """Removes by time or everything. `begin` and `end` are unix seconds, inclusive; end 0 = now."""
        await self._trim(await self.block_instance(instance_id), strategy, begin, end)

    async def _trim(self, instance: InstanceEntry, strategy: int, begin: int, end: int) -> None:
        # What was finished a moment ago must not lie behind a clock that is estimated a little late.
        now = await self._index.read_clock(instance)
        delay = self._delete_delay_ms(instance)
        if strategy == TrimStrategy.TIMESTAMP and (begin < 0 or end < 0):
            raise invalid(_NAMES[0] if begin < 0 else _NAMES[1], "must not be negative")
        end_ms = end * 1000 + 999 if end else now
        mode, begin_ms, end_ms = trim_span(strategy, begin * 1000, end_ms, now, _NAMES)
        await self._index.trim(instance, mode, begin_ms, end_ms, delay)
