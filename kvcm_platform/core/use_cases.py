"""What the use cases of the data plane share: their collaborators, and how a call names its blocks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import placement
from .admission import Admission
from .errors import Code, DomainError, invalid
from .placement import Serving
from .ports import (
    BlockIndex,
    Facts,
    FilePreparer,
    NoTap,
    PrefixSource,
    RecordRules,
    RegistrySource,
    RequestTap,
)
from .registry import GroupEntry, InstanceEntry, Registry
from .token_keys import TokenKeys

SHOWN = 128
"""Characters of a caller's text that a message repeats."""

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


class UseCases:
    def __init__(
        self,
        index: BlockIndex,
        prefixes: PrefixSource,
        rules: RecordRules,
        registry: RegistrySource,
        facts: Facts,
        admission: Admission,
        limits: Limits | None = None,
        token_keys: TokenKeys | None = None,
        files: FilePreparer | None = None,
        tap: RequestTap | None = None,
    ) -> None:
        self._index = index
        self._prefixes = prefixes
        self._rules = rules
        self._registry = registry
        self._facts = facts
        self._admission = admission
        self._limits = limits or Limits()
        self._token_keys = token_keys or TokenKeys(None, 0)
        self._files = files
        self._tap: RequestTap = tap or NoTap()
        self._serving: dict[str, Serving] = {}
        self._serving_of: Registry | None = None

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

    async def block_instance(self, instance_id: str) -> InstanceEntry:
        """The same; raises INVALID_ARGUMENT for one of keys and values."""
        found = await self.instance(instance_id)
        if found.has_values:
            raise invalid("instance_id", "the instance holds keys and values; it has no numbered blocks")
        return found

    def _group(self, instance: InstanceEntry) -> GroupEntry:
        group = self._registry.current.groups.get(instance.group)
        if group is None:
            raise DomainError(Code.NOT_READY, f"group {instance.group} is not published")
        return group

    def _served(self, group: GroupEntry) -> Serving:
        """What readers of the group may get now; the same object until the registry changes."""
        registry = self._registry.current
        if registry is not self._serving_of:
            self._serving, self._serving_of = {}, registry
        known = self._serving.get(group.name)
        if known is None:
            known = self._serving[group.name] = placement.serving(registry, group)
        return known

    def _readable(self, group: GroupEntry) -> Serving:
        """The same; raises IO_ERROR when none of the group's storages can be read."""
        serving = self._served(group)
        if not serving.is_readable:
            raise placement.unreadable(self._registry.current, group)
        return serving

    async def _asked(self, instance: InstanceEntry, blocks: Blocks) -> Sequence[int]:
        """The keys of a query or a Start, which count against its group's limits."""
        if self._group(instance).limits.has_rates:
            self._check_blocks(instance, blocks)
            await self._admit(instance, len(blocks.keys) or len(blocks.tokens) // instance.block_size)
        return await self._keys(instance, blocks)

    async def _admit(self, instance: InstanceEntry, count: int) -> None:
        """Raises TOO_MANY for a call about so many blocks that passes a limit of its group."""
        group = self._group(instance)
        if group.limits.has_rates:
            await self._admission.call(group, count)

    def _check_blocks(self, instance: InstanceEntry, blocks: Blocks) -> None:
        if len(blocks.keys) > self._limits.max_keys:
            raise DomainError(
                Code.TOO_LARGE,
                f"block_keys: {len(blocks.keys)} are more than {self._limits.max_keys}",
                field="block_keys",
            )
        if len(blocks.keys):
            return
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
        count = len(blocks.tokens) // instance.block_size
        if count > self._limits.max_keys:
            raise DomainError(
                Code.TOO_LARGE,
                f"token_ids: {count} blocks are more than {self._limits.max_keys} (KVCM_MAX_KEYS)",
                field="token_ids",
            )

    async def _keys(self, instance: InstanceEntry, blocks: Blocks) -> Sequence[int]:
        self._check_blocks(instance, blocks)
        if len(blocks.keys):
            return blocks.keys
        hashing = self._token_keys
        if hashing.is_slow(len(blocks.tokens)):
            # The Python loop holds the interpreter now and then, but other calls get their turn.
            return await asyncio.to_thread(hashing.keys, blocks.tokens, instance.block_size)
        return hashing.keys(blocks.tokens, instance.block_size)


def plain(keys: Sequence[int]) -> list[int]:
    """Keys as numbers: what is written or removed is looked at key by key."""
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
