"""Groups whose index lies on a Redis of their own (`meta_indexer.storage_uri`, DESIGN 4.2).

What belongs to such a group and its instances has its hash tags there; everything else stays on the
platform's own Redis. `PlacedConnection` sends each command where its key is, so that no adapter
knows of it. Where a group lies is fixed when it is created, and is on record in `kvcm:placed`:
`g:<group number>` -> URL, `i:<instance number>` -> group number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from kvcm_platform.core.registry import Entry, GroupEntry, InstanceEntry, MetaIndexerSettings

from . import keyspace
from .address import BadAddress
from .connection import CALL_SECONDS, Connection, IndexUnavailable
from .life import Life
from .link import MAX_CLOCK_SKEW_MS
from .slots import key_of

_SCHEMES = ("redis://", "rediss://", "redis+", "rediss+", "unix://")


def own_url(indexer: MetaIndexerSettings) -> str:
    """The URL of a group's own Redis; empty when it lies with all others."""
    is_own = indexer.storage_type == "redis" and indexer.storage_uri.startswith(_SCHEMES)
    return indexer.storage_uri if is_own else ""


@dataclass(frozen=True, slots=True)
class Places:
    """Where groups lie: URL by group number, and group number by instance number."""

    urls: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes], own: str = "") -> Places:
        """From `kvcm:placed`; a URL that is the platform's own (`own`) says nothing."""
        urls: dict[int, str] = {}
        groups: dict[int, int] = {}
        for name, value in fields.items():
            kind, _, number = name.partition(b":")
            if kind == b"i":
                groups[int(number)] = int(value)
            elif value.decode() != own:
                urls[int(number)] = value.decode()
        return cls(urls, groups)

    def url_of(self, key: str | bytes) -> str:
        """The URL of the server that holds a key; empty for the platform's own."""
        if not self.urls:
            return ""
        name = key.decode() if isinstance(key, bytes) else str(key)
        tag, _, _ = name.removeprefix("{").partition("}")
        if not name.startswith("{") or ":" not in tag:
            return ""
        kind, _, number = tag.partition(":")
        if kind == "g":
            return self.urls.get(int(number), "")
        try:
            group = self.groups.get(int(kind, 16))
        except ValueError:
            return ""  # {st:n}, {mi:…}: tags of other things
        return self.urls.get(group, "") if group is not None else ""


def place_commands(changed: Iterable[Entry], places: Places) -> list[tuple[Any, ...]]:
    """What a publication writes to `kvcm:placed`, before the entries themselves."""
    commands: list[tuple[Any, ...]] = []
    urls = dict(places.urls)
    for entry in changed:
        if isinstance(entry, GroupEntry):
            if url := own_url(entry.meta_indexer):
                urls[entry.number] = url
                commands.append(("HSET", keyspace.PLACED, f"g:{entry.number}", url))
            elif urls.pop(entry.number, ""):
                commands.append(("HDEL", keyspace.PLACED, f"g:{entry.number}"))
    for entry in changed:
        if isinstance(entry, InstanceEntry) and entry.group_number in urls:
            commands.append(("HSET", keyspace.PLACED, f"i:{entry.number}", entry.group_number))
    return commands


class Nowhere(Connection):
    """Stands where a URL says nothing: whatever is asked of it is refused, as of a server that is away."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    async def learn_clock(self) -> None:
        raise IndexUnavailable(self._reason)

    async def connect(self) -> None:
        raise IndexUnavailable(self._reason)

    async def close(self) -> None:
        """Nothing is open."""

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        raise IndexUnavailable(self._reason)

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        raise IndexUnavailable(self._reason)


class PlacedConnection(Connection):
    """The connection that adapters get. `places` is read on each call; connections are opened on demand."""

    def __init__(
        self, main: Connection, places: Callable[[], Places], connect_to: Callable[[str], Connection]
    ) -> None:
        self._main = main
        self._places = places
        self._connect_to = connect_to
        self._others: dict[str, Connection] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    @property
    def generation(self) -> int:  # type: ignore[override]
        """That of the platform's own Redis; `generation_of` a key is what functions are given."""
        return self._main.generation

    @property
    def connects(self) -> int:  # type: ignore[override]
        return self._main.connects

    def now_ms(self) -> int:
        return self._main.now_ms()

    def server_of(self, key: str) -> Connection:
        return self._holder(key)

    def is_placed(self, key: str) -> bool:
        """Whether a key lies on a Redis of its group's own."""
        return bool(self._places().url_of(key))

    def generation_of(self, key: str) -> int:
        return self._holder(key).generation_of(key)

    def life_of(self, key: str) -> Life:
        return self._holder(key).life

    async def stamp(self) -> None:
        """Stamps the platform's own Redis; groups' are followed meanwhile and waited for by nobody."""
        for url, other in self._others.items():
            if other.connects and (url not in self._following or self._following[url].done()):
                self._following[url] = asyncio.ensure_future(_follow(other))
        await self._main.stamp()

    async def learn_clock(self) -> None:
        """The platform's own clock is what counts; those of others are only held against it."""
        await self._main.learn_clock()

    async def connect(self) -> None:
        """The platform's own Redis must be there; a group's is waited for by its own calls."""
        await self._main.connect()

    async def close(self) -> None:
        for task in self._following.values():
            task.cancel()
        await self._main.close()
        for other in self._others.values():
            await other.close()

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        if not self._places().urls:
            return await self._main.call(*command, timeout=timeout)
        return await (await self._ready(_key(command))).call(*command, timeout=timeout)

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        if not self._places().urls:
            return await self._main.pipeline(commands, timeout=timeout, at=at)
        if at:
            return await (await self._ready(at)).pipeline(commands, timeout=timeout, at=at)
        by_holder: dict[Connection, list[int]] = {}
        for number, command in enumerate(commands):
            by_holder.setdefault(await self._ready(_key(command)), []).append(number)
        replies: list[Any] = [None] * len(commands)
        for holder, numbers in by_holder.items():
            answers = await holder.pipeline([commands[number] for number in numbers], timeout=timeout)
            for number, answer in zip(numbers, answers, strict=True):
                replies[number] = answer
        return replies

    def _holder(self, key: str | bytes) -> Connection:
        url = self._places().url_of(key)
        if not url:
            return self._main
        known = self._others.get(url)
        if known is None:
            try:
                known = self._connect_to(url)
            except BadAddress as error:
                known = Nowhere(f"the group's own Redis cannot be used: {error}")
            self._others[url] = known
        return known

    async def _ready(self, key: str | bytes) -> Connection:
        """The connection to the holder of a key, once its clock is known to agree with ours."""
        holder = self._holder(key)
        if holder is self._main:
            return holder
        if not holder.connects:
            await holder.connect()
        difference = holder.now_ms() - self._main.now_ms()
        if abs(difference) > MAX_CLOCK_SKEW_MS:
            raise IndexUnavailable(
                f"the clock of the group's own Redis differs from the platform's by {difference} ms"
            )
        return holder


async def _follow(other: Connection) -> None:
    """Clock and stamp of a group's own Redis; its outage is told by the calls that need it."""
    with suppress(RedisError):
        await other.learn_clock()
        await other.stamp()


def _key(command: Sequence[Any]) -> str | bytes:
    """The key that a command is about; one without a key goes to the platform's own Redis."""
    try:
        return key_of(command)
    except ValueError:
        return ""
