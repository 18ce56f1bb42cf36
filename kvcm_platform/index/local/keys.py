"""Hashes, sorted sets and streams by name over a ByteStore, and changes of several of them in one step.

A hash is a table. A sorted set is a table of scores, and in memory once it was used. Streams are
in memory alone: who follows one begins anew with the process.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from kvcm_platform.index.embedded.byte_store import BEGIN, ByteStore, Mutation

from .sorted_set import SortedSet

SIZES = b"#"
"""Table of the number of fields of each hash."""
STREAM_LENGTH = 4096
_SCORE = struct.Struct(">d")

Fields = Mapping[bytes, bytes]


@dataclass(slots=True)
class Stream:
    """Entries by rising numbers: the ms of their time where that is told, or one more than the last."""

    entries: deque[tuple[int, Fields]] = field(default_factory=deque)
    last: int = 0

    def add(self, fields: Fields, at_ms: int, most: int) -> None:
        self.last = max(self.last + 1, at_ms)
        self.entries.append((self.last, fields))
        self.forget(len(self.entries) - most)

    def forget(self, count: int) -> None:
        """The oldest entries."""
        for _ in range(count):
            self.entries.popleft()

    def forget_before(self, number: int) -> int:
        """Entries with lower numbers; returns how many there were."""
        count = sum(1 for _ in takewhile(lambda entry: entry[0] < number, self.entries))
        self.forget(count)
        return count

    def after(self, position: int, limit: int) -> list[tuple[int, Fields]]:
        found = [entry for entry in self.entries if entry[0] > position]
        return found[:limit]

    def newest(self, before: int | None, limit: int) -> list[tuple[int, Fields]]:
        """Up to `limit` entries, the newest first; only those with lower numbers than `before`."""
        older = (entry for entry in reversed(self.entries) if before is None or entry[0] < before)
        return list(islice(older, limit))


class Keys:
    """What is there now; changes are made by a `Transaction`."""

    def __init__(self, store: ByteStore) -> None:
        self.store = store
        self._sets: dict[str, SortedSet] = {}
        self._streams: dict[str, Stream] = {}

    def sorted_set(self, name: str) -> SortedSet:
        known = self._sets.get(name)
        if known is None:
            rows = self.store.items(name.encode())
            known = SortedSet((member, _SCORE.unpack(raw)[0]) for member, raw in rows)
            self._sets[name] = known
        return known

    def stream(self, name: str) -> Stream:
        return self._streams.setdefault(name, Stream())

    def hash_size(self, name: str) -> int:
        raw = self.store.get(SIZES, [name.encode()])[0]
        return 0 if raw is None else int.from_bytes(raw)

    def hash_items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        return self.store.items(name.encode())

    def hash_names(self) -> list[str]:
        """Hashes that are not empty."""
        return [name.decode() for name, _ in self.store.items(SIZES)]

    def set_names(self) -> list[str]:
        """Sorted sets that were used and are not empty."""
        return [name for name, known in self._sets.items() if known.scores]

    def drop(self, name: str) -> None:
        """Takes a key away, whatever it holds."""
        table = name.encode()
        mutations: list[Mutation] = [(table, key, None) for key, _ in self.store.items(table)]
        self.store.write([*mutations, (SIZES, table, None)])
        self._sets.pop(name, None)
        self._streams.pop(name, None)


class Transaction:
    """Reads what is there and its own changes; `commit` writes them in one step, or they never were."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._before: dict[str, dict[bytes, bytes | None]] = {}
        self._after: dict[str, dict[bytes, bytes | None]] = {}
        self._scores: dict[str, dict[bytes, float | None]] = {}
        self._added: list[tuple[str, Fields, int, int]] = []

    # Hashes

    def hget(self, name: str, key: bytes) -> bytes | None:
        return self.hmget(name, (key,))[0]

    def hmget(self, name: str, keys: Sequence[bytes]) -> list[bytes | None]:
        before = self._read(name, keys)
        after = self._after.get(name)
        if not after:
            return [before[key] for key in keys]
        return [after[key] if key in after else before[key] for key in keys]

    def _read(self, name: str, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        before = self._before.setdefault(name, {})
        missing = [key for key in keys if key not in before]
        if missing:
            before.update(zip(missing, self._keys.store.get(name.encode(), missing), strict=True))
        return before

    def hgetall(self, name: str) -> dict[bytes, bytes]:
        found: dict[bytes, bytes | None] = dict(self._keys.hash_items(name))
        found.update(self._after.get(name, {}))
        return {key: value for key, value in found.items() if value is not None}

    def hset(self, name: str, fields: Mapping[bytes, bytes]) -> None:
        self._after.setdefault(name, {}).update(fields)

    def hdel(self, name: str, *keys: bytes) -> int:
        """Returns how many were there."""
        there = sum(value is not None for value in self.hmget(name, list(dict.fromkeys(keys))))
        self._after.setdefault(name, {}).update(dict.fromkeys(keys))
        return there

    def hlen(self, name: str) -> int:
        return self._keys.hash_size(name) + self._growth(name)

    def page(self, name: str, cursor: bytes, limit: int) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """About `limit` fields as they were when the transaction began; cursors as those of HSCAN."""
        items, following = self._keys.store.page(name.encode(), BEGIN if cursor == b"0" else cursor, limit)
        return items, following or b"0"

    def hincrby(self, name: str, key: bytes, amount: int) -> int:
        total = int(self.hget(name, key) or b"0") + amount
        self.hset(name, {key: b"%d" % total})
        return total

    def _growth(self, name: str) -> int:
        after = self._after.get(name)
        if not after:
            return 0
        before = self._read(name, after)
        return sum((value is not None) - (before[key] is not None) for key, value in after.items())

    # Sorted sets

    def zscore(self, name: str, member: bytes) -> float | None:
        changed = self._scores.get(name)
        if changed is not None and member in changed:
            return changed[member]
        return self._keys.sorted_set(name).scores.get(member)

    def zadd(
        self, name: str, member: bytes, score: float, *, only_known: bool = False, only_up: bool = False
    ) -> bool:
        """Returns whether the member is new. `only_known` adds none, `only_up` never lowers a score."""
        before = self.zscore(name, member)
        if not (before is None and only_known) and not (before is not None and only_up and score <= before):
            self._scores.setdefault(name, {})[member] = score
        return before is None and not only_known

    def zrem(self, name: str, member: bytes) -> bool:
        """Returns whether it was there."""
        if self.zscore(name, member) is None:
            return False
        self._scores.setdefault(name, {})[member] = None
        return True

    def scores(self, name: str) -> Mapping[bytes, float]:
        """Members with their scores, as they were when the transaction began."""
        return self._keys.sorted_set(name).scores

    def zcard(self, name: str) -> int:
        known = self._keys.sorted_set(name).scores
        changed = self._scores.get(name, {}).items()
        return len(known) + sum((score is not None) - (member in known) for member, score in changed)

    def lowest(self, name: str, latest: float, limit: int) -> list[tuple[bytes, float]]:
        """Up to `limit` members with a score of `latest` or less, as they were when the transaction began."""
        return self._keys.sorted_set(name).lowest(latest, limit)

    # Streams

    def xadd(self, name: str, fields: Fields, *, at_ms: int = 0, most: int = STREAM_LENGTH) -> None:
        """`at_ms`: its time, where entries are told by it; `most`: entries that the stream keeps."""
        self._added.append((name, fields, at_ms, most))

    def commit(self) -> None:
        mutations: list[Mutation] = []
        for name, after in self._after.items():
            table, growth, before = name.encode(), self._growth(name), self._before[name]
            mutations += [(table, key, value) for key, value in after.items() if value != before[key]]
            if growth:
                size = self._keys.hash_size(name) + growth
                mutations.append((SIZES, table, size.to_bytes(8) if size else None))
        for name, scores in self._scores.items():
            table = name.encode()
            for member, score in scores.items():
                mutations.append((table, member, None if score is None else _SCORE.pack(score)))
        if mutations:
            self._keys.store.write(mutations)
        for name, scores in self._scores.items():
            known = self._keys.sorted_set(name)
            for member, score in scores.items():
                if known.scores.get(member) != score:
                    known.set(member, score)
        for name, fields, at_ms, most in self._added:
            self._keys.stream(name).add(fields, at_ms, most)
