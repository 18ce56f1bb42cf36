"""The use cases of the data plane: what MetaService does, without any transport.

Answers carry locations as wire bytes. Doors parse the call, call one of these, and translate.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import masks, placement
from .block_keys import chained_block_keys
from .errors import Code, DomainError, invalid
from .masks import Mask
from .ports import (
    BlockIndex,
    Facts,
    Prefix,
    PrefixSource,
    Record,
    RecordRules,
    RegistrySource,
    TrimMode,
    WriteLimits,
    WritePlan,
)
from .registry import GroupEntry, InstanceEntry, Registry
from .types import LocationStatus, QueryType, TrimStrategy

INSERT_SECONDS = 5
LONG_PROMPT = 16_384
"""Token ids from which on hashing leaves the event loop."""
MIN_DELETE_DELAY_MS = 500
"""Readers that got a URI just before a removal have at least this long (DESIGN 4.5)."""
MAX_WRITE_TIMEOUT = 3600
SHOWN = 128
"""Characters of a caller's text that a message repeats."""
EMPTY_WRITE_TIMEOUT = 10

MAX_SPECS = 1 << 18
"""Location specs of one answer: keys times specs of a block."""
SESSION_GONE = "write_session_id has been deleted"
_SESSION_ID = re.compile(r"[a-z0-9]{32}")

_ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789"
_TO_ALPHABET = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))


def random_id(length: int) -> str:
    """Random characters a-z0-9, as session and location ids are made of."""
    return os.urandom(length).translate(_TO_ALPHABET).decode()


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one call."""

    max_keys: int = 65_536
    max_tokens: int = 4 << 20
    max_sessions: int = 10_000
    default_write_timeout: int = 30


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a call names its blocks: keys win if both are there (WIRE.md 1.5)."""

    keys: Sequence[int]
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class StartedWrite:
    """Answer of start_write: one location (wire bytes) per block that is not in the mask, in order."""

    session_id: str
    mask: int | list[bool]
    locations: list[bytes]


@dataclass(frozen=True, slots=True)
class BlockMeta:
    location_id: str
    status: LocationStatus
    location: bytes


class MetadataService:
    def __init__(
        self,
        index: BlockIndex,
        prefixes: PrefixSource,
        rules: RecordRules,
        registry: RegistrySource,
        facts: Facts,
        limits: Limits | None = None,
    ) -> None:
        self._index = index
        self._prefixes = prefixes
        self._rules = rules
        self._registry = registry
        self._facts = facts
        self._limits = limits or Limits()

    async def instance(self, instance_id: str) -> InstanceEntry:
        """Raises INSTANCE_NOT_EXIST, for an empty id too."""
        found = await self._registry.instance(instance_id)
        if found is None:
            raise DomainError(
                Code.INSTANCE_NOT_EXIST,
                f"instance {instance_id[:SHOWN]!r} is not registered",
                field="instance_id",
            )
        return found

    def _group(self, instance: InstanceEntry) -> GroupEntry:
        group = self._registry.current.groups.get(instance.group)
        if group is None:
            raise DomainError(Code.NOT_READY, f"group {instance.group} is not published")
        return group

    async def _keys(self, instance: InstanceEntry, blocks: Blocks) -> Sequence[int]:
        if len(blocks.keys) > self._limits.max_keys:
            raise DomainError(
                Code.TOO_LARGE,
                f"block_keys: {len(blocks.keys)} are more than {self._limits.max_keys}",
                field="block_keys",
            )
        if len(blocks.keys):
            return blocks.keys
        if not len(blocks.tokens):
            raise invalid("block_keys", "neither block_keys nor token_ids are given")
        if len(blocks.tokens) > self._limits.max_tokens:
            raise DomainError(
                Code.TOO_LARGE,
                f"token_ids: {len(blocks.tokens)} are more than {self._limits.max_tokens}",
                field="token_ids",
            )
        if instance.block_size <= 0:
            raise invalid("block_size", "the instance was registered without one, token_ids cannot be used")
        if len(blocks.tokens) > LONG_PROMPT:
            # Hashing holds the interpreter now and then, but other calls get their turn.
            return await asyncio.to_thread(chained_block_keys, blocks.tokens, instance.block_size)
        return chained_block_keys(blocks.tokens, instance.block_size)

    # Queries

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
        instance = await self.instance(instance_id)
        masks.check(mask)
        keys = await self._keys(instance, blocks)
        registry = self._registry.current
        placement.check_readable(registry, self._group(instance))
        match query:
            case QueryType.PREFIX_MATCH:
                found = (await self._prefix(instance, registry, keys, mask)).pieces
            case QueryType.BATCH_GET:
                found = await self._batch(instance, registry, keys)
            case QueryType.REVERSE_ROLL_SW_MATCH:
                found = await self._window(instance, registry, keys, sw_size)
            case QueryType.PREFIX_MATCH_WITH_MAMBA:
                raise DomainError(Code.UNSUPPORTED, "query_type: QT_PREFIX_MATCH_WITH_MAMBA is not supported")
            case _:
                raise invalid("query_type", f"{query} is not a query type")
        if spec_names:
            names = frozenset(spec_names)
            return [self._rules.only_specs(wire, names) for wire in found]
        return found

    async def _prefix(
        self, instance: InstanceEntry, registry: Registry, keys: Sequence[int], mask: Mask
    ) -> Prefix:
        tick = self._index.now_ms()
        wanted, held = masks.unmasked(mask, keys), masks.masked(mask, keys)
        if len(held):
            self._index.touch_keys(instance, held, 0, tick)
        cache_bytes = self._group(instance).meta_indexer.cache_policy.capacity_mb << 20
        match = await self._prefixes.prefix(
            instance, wanted, registry.served_numbers(), len(held), tick, cache_bytes
        )
        self._note_query(instance, len(wanted), match.count)
        return match

    async def _batch(self, instance: InstanceEntry, registry: Registry, keys: Sequence[int]) -> list[bytes]:
        served_now = registry.served_numbers()
        records = await self._index.records(instance, keys)
        wires = [self._rules.served(record, served_now) for record in records]
        self._touch_hits(instance, records, wires)
        self._note_query(instance, len(keys), sum(wire is not None for wire in wires))
        missing = self._rules.placeholder(instance)
        return [missing if wire is None else wire for wire in wires]

    async def _window(
        self, instance: InstanceEntry, registry: Registry, keys: Sequence[int], size: int
    ) -> list[bytes]:
        if not 1 <= size <= len(keys):
            raise invalid("sw_size", f"{size} is not within 1..{len(keys)}")
        served_now = registry.served_numbers()
        records = await self._index.records(instance, keys)
        wires = [self._rules.served(record, served_now) for record in records]
        start = masks.rightmost_window([wire is not None for wire in wires], size)
        answer = [self._rules.placeholder(instance)] * len(keys)
        if start is not None:
            answer[start : start + size] = [wire for wire in wires[start : start + size] if wire is not None]
            self._index.touch(instance, records[start : start + size], start, self._index.now_ms())
        self._note_query(instance, len(keys), size if start is not None else 0)
        return answer

    async def get_cache_location_len(self, instance_id: str, query: int, blocks: Blocks, sw_size: int) -> int:
        """How long the hit is: matched prefix, hits of a batch, or the end of the right-most window."""
        instance = await self.instance(instance_id)
        keys = await self._keys(instance, blocks)
        registry = self._registry.current
        placement.check_readable(registry, self._group(instance))
        match query:
            case QueryType.PREFIX_MATCH:
                return (await self._prefix(instance, registry, keys, None)).count
            case QueryType.BATCH_GET:
                missing = self._rules.placeholder(instance)
                return sum(wire is not missing for wire in await self._batch(instance, registry, keys))
            case QueryType.REVERSE_ROLL_SW_MATCH:
                missing = self._rules.placeholder(instance)
                answer = await self._window(instance, registry, keys, sw_size)
                return max((i + 1 for i, wire in enumerate(answer) if wire is not missing), default=0)
            case QueryType.PREFIX_MATCH_WITH_MAMBA:
                raise DomainError(Code.UNSUPPORTED, "query_type: QT_PREFIX_MATCH_WITH_MAMBA is not supported")
        raise invalid("query_type", f"{query} is not a query type")

    async def get_cache_meta(self, instance_id: str, blocks: Blocks, mask: Mask) -> list[BlockMeta]:
        """State of each unmasked key's first location, whatever its status."""
        instance = await self.instance(instance_id)
        masks.check(mask)
        keys = masks.unmasked(mask, await self._keys(instance, blocks))
        answer: list[BlockMeta] = []
        for record in await self._index.records(instance, keys):
            known = self._rules.first(record)
            if known is None:
                answer.append(BlockMeta("", LocationStatus.NOT_FOUND, self._rules.placeholder(instance)))
            else:
                answer.append(BlockMeta(known[0], LocationStatus(known[1]), known[2]))
        return answer

    def _touch_hits(
        self, instance: InstanceEntry, records: Sequence[Record], wires: Sequence[bytes | None]
    ) -> None:
        self._index.touch(
            instance,
            [record if wire is not None else None for record, wire in zip(records, wires, strict=True)],
            0,
            self._index.now_ms(),
        )

    def _note_query(self, instance: InstanceEntry, requested: int, hits: int) -> None:
        self._facts.add(instance.instance_id, requests=1, requested_blocks=requested, hit_blocks=hits)

    # Writes

    async def start_write(
        self, instance_id: str, blocks: Blocks, group_names: Sequence[str], timeout_seconds: int
    ) -> StartedWrite:
        """First phase: places the missing blocks and opens a write session (DESIGN 4.4)."""
        instance = await self.instance(instance_id)
        group = self._group(instance)
        keys = await self._keys(instance, blocks)
        spec_sets = self._spec_sets(instance, group_names, len(blocks.keys))
        if len(keys) * len(instance.location_spec_infos) > MAX_SPECS:
            raise DomainError(
                Code.TOO_LARGE,
                f"block_keys: {len(keys)} blocks of {len(instance.location_spec_infos)} specs are more than"
                f" {MAX_SPECS} locations to write",
                field="block_keys",
            )
        registry = self._registry.current
        served_now = registry.served_numbers()

        position: dict[int, int] = {}
        for at, key in enumerate(keys):
            position.setdefault(key, at)
        unique = list(position)
        records = await self._index.records(instance, unique)
        missing = [
            key
            for key, record in zip(unique, records, strict=True)
            if not self._rules.exists(record, served_now)
        ]
        plan = self._plan(instance, group, missing, position, spec_sets, timeout_seconds, records)
        storage = None
        if plan.keys:
            try:
                candidates = placement.write_candidates(registry, group)
                storage = await self._index.reserve(plan, candidates)
            except DomainError:
                self._facts.add(instance.instance_id, write_refused=1)
                raise
        write_limits = WriteLimits(self._limits.max_sessions, group.meta_indexer.max_key_count)
        locations, lost = await self._index.write(plan, storage, served_now, write_limits)
        written = {position[key] for index, key in enumerate(missing) if index not in lost}
        return StartedWrite(
            plan.session_id, masks.compact([at not in written for at in range(len(keys))]), locations
        )

    def _spec_sets(self, instance: InstanceEntry, names: Sequence[str], key_count: int) -> list[int]:
        """Number of each key's spec set; empty when no groups were named: all specs."""
        if not names:
            return []
        if len(names) != key_count:
            raise invalid(
                "location_spec_group_names", f"{len(names)} names were given for {key_count} block_keys"
            )
        numbers = {group.name: number for number, group in enumerate(instance.location_spec_groups, 1)}
        unknown = next((name for name in names if name not in numbers), None)
        if unknown is not None:
            raise invalid("location_spec_group_names", f"the instance has no group {unknown!r}")
        return [numbers[name] for name in names]

    def _plan(
        self,
        instance: InstanceEntry,
        group: GroupEntry,
        missing: Sequence[int],
        position: dict[int, int],
        spec_sets: Sequence[int],
        timeout_seconds: int,
        existing: Sequence[Record],
    ) -> WritePlan:
        depths = [position[key] for key in missing]
        if timeout_seconds <= 0:
            timeout_seconds = self._limits.default_write_timeout if missing else EMPTY_WRITE_TIMEOUT
        timeout_ms = min(timeout_seconds, MAX_WRITE_TIMEOUT) * 1000
        now = self._index.now_ms()
        location_id = random_id(8)
        return WritePlan(
            instance=instance,
            group=group,
            session_id=random_id(24) + location_id,
            location_id=location_id,
            keys=missing,
            depths=depths,
            spec_sets=bytes(spec_sets[depth] for depth in depths) if spec_sets else b"",
            specs=instance.spec_sets(),
            insert_by_ms=now + min(INSERT_SECONDS * 1000, timeout_ms),
            deadline_ms=now + timeout_ms,
            tick_ms=now,
            existing=existing,
        )

    async def finish_write(self, instance_id: str, session_id: str, success: Mask) -> None:
        """Second phase: successes become SERVING, failures are writable again at once."""
        instance = await self.instance(instance_id)
        if not _SESSION_ID.fullmatch(session_id):
            raise DomainError(Code.INTERNAL, SESSION_GONE)
        masks.check(success, "success_blocks")
        written, failed = await self._index.finish(instance, session_id, success)
        self._facts.add(instance.instance_id, written_blocks=written, failed_blocks=failed)

    # Removal

    def _delete_delay_ms(self, instance: InstanceEntry) -> int:
        return max(self._group(instance).reclaim.delay_before_delete_ms, MIN_DELETE_DELAY_MS)

    async def remove_cache(self, instance_id: str, blocks: Blocks, keep: Mask) -> None:
        """Removes the blocks outside the mask, WRITING ones too; unknown keys are fine."""
        instance = await self.instance(instance_id)
        masks.check(keep)
        keys = masks.unmasked(keep, await self._keys(instance, blocks))
        removed = await self._index.remove(
            instance, list(dict.fromkeys(keys)), self._delete_delay_ms(instance)
        )
        self._facts.add(instance.instance_id, removed_blocks=removed.locations)

    async def trim_cache(self, instance_id: str, strategy: int, begin: int, end: int) -> None:
        """Removes by time or everything. `begin` and `end` are unix seconds, inclusive; end 0 = now."""
        instance = await self.instance(instance_id)
        now = self._index.now_ms()
        delay = self._delete_delay_ms(instance)
        match strategy:
            case TrimStrategy.REMOVE_ALL_CACHE:
                removed = await self._index.trim(instance, TrimMode.UNTIL, 0, now, delay)
            case TrimStrategy.REMOVE_ALL_META:
                removed = await self._index.trim(instance, TrimMode.META, 0, now, delay)
            case TrimStrategy.TIMESTAMP:
                if begin < 0 or end < 0:
                    raise invalid("begin_timestamp" if begin < 0 else "end_timestamp", "must not be negative")
                end_ms = end * 1000 + 999 if end else now
                if begin * 1000 > end_ms:
                    raise invalid("begin_timestamp", "is after end_timestamp")
                removed = await self._index.trim(instance, TrimMode.TIME, begin * 1000, end_ms, delay)
            case _:
                raise invalid("strategy", f"{strategy} is not a trim strategy")
        self._facts.add(instance.instance_id, removed_blocks=removed)
