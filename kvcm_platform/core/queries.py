"""The queries of the data plane (WIRE.md 3.3). Answers carry locations as wire bytes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from . import masks
from .errors import Code, DomainError, invalid
from .masks import Mask
from .placement import Serving
from .ports import Prefix, Record
from .registry import InstanceEntry
from .types import STORAGE_TYPE_BY_WIRE, LocationStatus, QueryType
from .use_cases import Blocks, UseCases

AT_ONCE = 512
"""Records looked at before other calls get their turn: those of several locations take a while."""
FIRST_READ = 256
LARGEST_READ = 2048


def match_reads(count: int, begin: int = 0) -> Iterator[tuple[int, int]]:
    """(begin, end) of the reads of a match from key `begin` on: each twice as large as the one before.

    A match ends at its first miss, so what is read behind it was read in vain.
    """
    size = FIRST_READ
    while begin < count:
        end = min(begin + size, count)
        yield begin, end
        begin, size = end, min(size * 2, LARGEST_READ)


@dataclass(frozen=True, slots=True)
class BlockMeta:
    location_id: str
    status: LocationStatus
    location: bytes


class SelectStrategy(IntEnum):
    """How a backend selector picks (`LSS_*` of the protocol)."""

    UNSPECIFIED = 0
    V6D_PREFIX = 1
    V6D_COVERAGE = 2
    WEIGHTED_RANDOM = 3


@dataclass(frozen=True, slots=True)
class BackendSelector:
    """One wish of GetCacheLocationsByBackend: locations on storages of this wire type, 0 = any."""

    wire_type: int
    strategy: int


class Queries(UseCases):
    async def get_cache_location(
        self,
        instance_id: str,
        query: int,
        blocks: Blocks,
        mask: Mask,
        sw_size: int,
        spec_names: Sequence[str],
    ) -> list[bytes]:
        """Locations by one of the query types of WIRE.md 3.3: wire bytes, in pieces of one or more."""
        instance = await self.block_instance(instance_id)
        masks.check(mask)
        keys = await self._asked(instance, blocks)
        prefix: Prefix | None = None
        match query:
            case QueryType.PREFIX_MATCH:
                prefix = await self._prefix(instance, keys, mask)
            case QueryType.BATCH_GET:
                found = await self._batch(instance, keys)
            case QueryType.REVERSE_ROLL_SW_MATCH:
                found = await self._window(instance, keys, sw_size)
            case QueryType.PREFIX_MATCH_WITH_MAMBA:
                prefix = await self._prefix_with_state(instance, keys, mask)
            case _:
                raise invalid("query_type", f"{query} is not a query type")
        if prefix is not None:
            found = prefix.pieces
        if self._tap.is_open:
            hits = self._found(instance, found) if prefix is None else prefix.count
            self._tap.query(instance, query, keys, mask, hits, len(blocks.tokens), sw_size)
        if spec_names:
            names = frozenset(spec_names)
            return [self._rules.only_specs(wire, names) for wire in found]
        return found

    def prefix_at_once(self, instance_id: str, raw: bytes, offset: int) -> list[bytes] | None:
        """get_cache_location by PREFIX_MATCH, where the caches of this process have all that it takes.

        `raw` holds the keys as int64 in the machine's order of bytes; the first `offset` are masked, as an
        offset of a mask says. None, with nothing done, in every other case, also where the call is to be
        refused.
        """
        registry = self._registry.current
        instance = registry.instances.get(instance_id)
        group = registry.groups.get(instance.group) if instance is not None else None
        count = len(raw) >> 3
        if (
            instance is None
            or group is None
            or instance.has_values
            or not 0 <= offset < count <= self._limits.max_keys
        ):
            return None
        serving = self._served(group)
        is_limited = group.limits.has_rates
        if not serving.is_readable or (is_limited and not self._admission.holds(group, count)):
            return None
        tick = self._index.now_ms()
        cache_bytes = group.meta_indexer.cache_policy.capacity_mb << 20
        wanted = raw[offset << 3 :] if offset else raw
        match = self._prefixes.cached(instance, wanted, serving, offset, tick, cache_bytes)
        if match is None:
            return None
        if is_limited:
            self._admission.spend(group, count)
        if offset:
            held = struct.unpack(f"={offset}q", raw[: offset << 3])
            self._index.touch_keys(instance, held, 0, tick)
        self._note_query(instance, match.count, match.count)
        if self._tap.is_open:
            self._tap.query(instance, QueryType.PREFIX_MATCH, raw, offset or None, match.count)
        return match.pieces

    async def get_cache_location_len(self, instance_id: str, query: int, blocks: Blocks, sw_size: int) -> int:
        """How long the hit is: matched prefix, hits of a batch, or the end of the right-most window."""
        instance = await self.block_instance(instance_id)
        keys = await self._asked(instance, blocks)
        missing = self._rules.placeholder(instance)
        match query:
            case QueryType.PREFIX_MATCH:
                return (await self._prefix(instance, keys, None)).count
            case QueryType.BATCH_GET:
                return sum(wire is not missing for wire in await self._batch(instance, keys))
            case QueryType.REVERSE_ROLL_SW_MATCH:
                answer = await self._window(instance, keys, sw_size)
                return max((i + 1 for i, wire in enumerate(answer) if wire is not missing), default=0)
            case QueryType.PREFIX_MATCH_WITH_MAMBA:
                return (await self._prefix_with_state(instance, keys, None)).count
        raise invalid("query_type", f"{query} is not a query type")

    async def get_cache_meta(self, instance_id: str, blocks: Blocks, mask: Mask) -> list[BlockMeta]:
        """State of each unmasked key's first location, whatever its status."""
        instance = await self.block_instance(instance_id)
        masks.check(mask)
        keys = masks.unmasked(mask, await self._asked(instance, blocks))
        answer: list[BlockMeta] = []
        for record in await self._index.records(instance, keys):
            known = self._rules.first(record)
            if known is None:
                answer.append(BlockMeta("", LocationStatus.NOT_FOUND, self._rules.placeholder(instance)))
            else:
                answer.append(BlockMeta(known[0], LocationStatus(known[1]), known[2]))
        return answer

    async def get_cache_locations_by_backend(
        self,
        instance_id: str,
        query: int,
        blocks: Blocks,
        spec_names: Sequence[str],
        selectors: Sequence[BackendSelector],
    ) -> list[list[bytes]]:
        """For each key at most one location for each selector; without selectors one of any storage.

        V6D_PREFIX answers for the keys up to the first one that the type does not have, the other
        strategies for every key that it has; where several locations fit, one is chosen by weight.
        """
        instance = await self.block_instance(instance_id)
        keys = await self._asked(instance, blocks)
        if query != QueryType.BATCH_GET:
            raise invalid("query_type", "only QT_BATCH_GET asks by backend")
        if len(keys) * len(selectors) > self._limits.max_keys:
            raise DomainError(
                Code.TOO_LARGE,
                f"backend_selectors: {len(selectors)} for {len(keys)} blocks are more than"
                f" {self._limits.max_keys} answers (KVCM_MAX_KEYS)",
                field="backend_selectors",
            )
        for selector in selectors:
            if selector.wire_type and selector.wire_type not in STORAGE_TYPE_BY_WIRE:
                raise invalid("backend_selectors.backend_type", f"{selector.wire_type} is not a storage type")
            if selector.strategy not in set(SelectStrategy):
                raise invalid("backend_selectors.strategy", f"{selector.strategy} is not a strategy")
        serving = self._readable(self._group(instance))
        records = await self._index.records(instance, keys)
        answer: list[list[bytes]] = [[] for _ in records]
        for selector in selectors or (BackendSelector(0, SelectStrategy.WEIGHTED_RANDOM),):
            for at, (found, record) in enumerate(zip(answer, records, strict=True)):
                if at % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)
                wire = self._rules.served_by(record, instance, serving, selector.wire_type)
                if wire is not None:
                    found.append(self._rules.only_specs(wire, frozenset(spec_names)) if spec_names else wire)
                elif selector.strategy == SelectStrategy.V6D_PREFIX:
                    break
        self._touch_hits(instance, records, [bool(found) for found in answer])
        self._note_query(instance, len(keys), sum(map(bool, answer)))
        return answer

    async def _prefix(self, instance: InstanceEntry, keys: Sequence[int], mask: Mask) -> Prefix:
        group = self._group(instance)
        serving = self._readable(group)
        tick = self._index.now_ms()
        wanted = self._unmasked(instance, keys, mask, tick)
        depth = len(keys) - len(wanted)
        cache_bytes = group.meta_indexer.cache_policy.capacity_mb << 20
        match = await self._prefixes.prefix(instance, wanted, serving, depth, tick, cache_bytes)
        self._note_query(instance, len(wanted), match.count)
        return match

    def _unmasked(self, instance: InstanceEntry, keys: Sequence[int], mask: Mask, tick: int) -> Sequence[int]:
        """The keys to look for; those that the caller holds are noted as used."""
        held = masks.masked(mask, keys)
        if len(held):
            self._index.touch_keys(instance, held, 0, tick)
        return masks.unmasked(mask, keys)

    async def _prefix_with_state(self, instance: InstanceEntry, keys: Sequence[int], mask: Mask) -> Prefix:
        """The longest prefix whose last block has every spec of the instance.

        Hybrid models keep the recurrent state of some blocks only: a prefix is of use up to one
        that has it.
        """
        serving = self._readable(self._group(instance))
        tick = self._index.now_ms()
        wanted = self._unmasked(instance, keys, mask, tick)
        depth = len(keys) - len(wanted)
        wires: list[bytes] = []
        used: list[Record] = []
        end = 0
        for begin, stop in match_reads(len(wanted)):
            for record in await self._index.records(instance, wanted[begin:stop]):
                wire = self._rules.served(record, instance, serving)
                if wire is None:
                    break
                wires.append(wire)
                used.append(record)
                if self._rules.has_all_specs(record, instance, serving):
                    end = len(wires)
            if len(wires) < stop:
                break
        self._index.touch(instance, used[:end], depth, tick)
        self._note_query(instance, len(wanted), end)
        return Prefix(end, wires[:end])

    async def _batch(self, instance: InstanceEntry, keys: Sequence[int]) -> list[bytes]:
        records, wires = await self._wires(instance, keys)
        self._touch_hits(instance, records, [wire is not None for wire in wires])
        self._note_query(instance, len(keys), sum(wire is not None for wire in wires))
        missing = self._rules.placeholder(instance)
        return [missing if wire is None else wire for wire in wires]

    async def _window(self, instance: InstanceEntry, keys: Sequence[int], size: int) -> list[bytes]:
        if not 1 <= size <= len(keys):
            raise invalid("sw_size", f"{size} is not within 1..{len(keys)}")
        records, wires = await self._wires(instance, keys)
        start = masks.rightmost_window([wire is not None for wire in wires], size)
        answer = [self._rules.placeholder(instance)] * len(keys)
        if start is not None:
            answer[start : start + size] = [wire for wire in wires[start : start + size] if wire is not None]
            self._index.touch(instance, records[start : start + size], start, self._index.now_ms())
        self._note_query(instance, len(keys), size if start is not None else 0)
        return answer

    async def _wires(
        self, instance: InstanceEntry, keys: Sequence[int]
    ) -> tuple[Sequence[Record], list[bytes | None]]:
        serving: Serving = self._readable(self._group(instance))
        records = await self._index.records(instance, keys)
        wires: list[bytes | None] = []
        for at in range(0, len(records), AT_ONCE):
            if at:
                await asyncio.sleep(0)
            wires += [self._rules.served(record, instance, serving) for record in records[at : at + AT_ONCE]]
        return records, wires

    def _found(self, instance: InstanceEntry, wires: Sequence[bytes]) -> int:
        """How many of an answer with an entry for each key are no placeholders."""
        missing = self._rules.placeholder(instance)
        return sum(wire is not missing for wire in wires)

    def _touch_hits(self, instance: InstanceEntry, records: Sequence[Record], hits: Sequence[bool]) -> None:
        used = [record if is_hit else None for record, is_hit in zip(records, hits, strict=True)]
        self._index.touch(instance, used, 0, self._index.now_ms())

    def _note_query(self, instance: InstanceEntry, requested: int, hits: int) -> None:
        self._facts.add(instance.instance_id, requests=1, requested_blocks=requested, hit_blocks=hits)
