"""The plain commands that the adapters of this package send, by name; replies as Redis gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from .keys import STREAM_LENGTH, Fields, Keys, Transaction

Reply = object
Command = Callable[[Keys, Transaction, Sequence[bytes]], Reply]
_DEFAULT_COUNT = 10
FEW = 4
"""Less than this part of a sorted set is taken from its heap, more of it is put in order."""


def _flat(fields: Fields) -> list[bytes]:
    return [part for item in fields.items() for part in item]


def _hset(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    name, fields = args[0].decode(), dict(zip(args[1::2], args[2::2], strict=True))
    new = sum(value is None for value in tx.hmget(name, list(fields)))
    tx.hset(name, fields)
    return new


def _hsetnx(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    return _hset(keys, tx, args) if tx.hget(args[0].decode(), args[1]) is None else 0


def _hscan(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> list[object]:
    options = dict(zip(args[2::2], args[3::2], strict=True))
    items, following = tx.page(args[0].decode(), args[1], int(options.get(b"COUNT", _DEFAULT_COUNT)))
    return [following, [part for item in items for part in item]]


def _zadd(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    name, rest = args[0].decode(), list(args[1:])
    flags = set()
    while rest and rest[0] in {b"XX", b"GT"}:
        flags.add(rest.pop(0))
    new = 0
    for score, member in zip(rest[::2], rest[1::2], strict=True):
        new += tx.zadd(name, member, float(score), only_known=b"XX" in flags, only_up=b"GT" in flags)
    return new


def _number(score: float) -> bytes:
    return b"%d" % int(score) if score == int(score) else repr(score).encode()


def _zscore(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> bytes | None:
    score = tx.zscore(args[0].decode(), args[1])
    return None if score is None else _number(score)


def _zrank(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int | None:
    scores = keys.sorted_set(args[0].decode()).scores
    own = scores.get(args[1])
    if own is None:
        return None
    return sum((score, member) < (own, args[1]) for member, score in scores.items())


def _zcount(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    """Members below a score, as all callers ask."""
    if args[1] != b"-inf" or args[2][:1] != b"(":
        raise ValueError("ZCOUNT counts from -inf to below a score here")
    below = float(args[2][1:])
    return sum(score < below for score in keys.sorted_set(args[0].decode()).scores.values())


def _zrange(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> list[bytes]:
    members, begin, end = keys.sorted_set(args[0].decode()), int(args[1]), int(args[2])
    if 0 <= end < len(members.scores) // FEW:
        ordered = members.lowest(inf, end + 1)
    else:
        ordered = sorted(members.scores.items(), key=lambda item: (item[1], item[0]))
    chosen = ordered[begin:] if end == -1 else ordered[begin : end + 1]
    if b"WITHSCORES" in args[3:]:
        return [part for member, score in chosen for part in (member, _number(score))]
    return [member for member, _ in chosen]


def _zrangebyscore(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> list[bytes]:
    """From -inf on, as all callers ask."""
    if args[1] != b"-inf" or args[3:5] != [b"LIMIT", b"0"]:
        raise ValueError("ZRANGEBYSCORE begins at -inf and at the first member here")
    found = keys.sorted_set(args[0].decode()).lowest(float(args[2]), int(args[5]))
    return [member for member, _ in found]


def _position(raw: bytes) -> int:
    """The entry to go on behind: 0 for `-`, before all; n for `(n-0`."""
    return 0 if raw == b"-" else int(raw.lstrip(b"(").partition(b"-")[0])


def _entry(number: int, fields: Fields) -> list[object]:
    return [b"%d-0" % number, _flat(fields)]


def _xrange(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> list[list[object]]:
    """From the beginning or from behind an entry to the end."""
    limit = int(args[4]) if len(args) > 4 else STREAM_LENGTH
    return [_entry(*entry) for entry in keys.stream(args[0].decode()).after(_position(args[1]), limit)]


def _xrevrange(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> list[list[object]]:
    """From the newest entry, or the one before `(n-0`, to the oldest; one entry where no COUNT is given."""
    before = None if args[1] == b"+" else _position(args[1])
    limit = int(args[4]) if len(args) > 4 else 1
    return [_entry(*entry) for entry in keys.stream(args[0].decode()).newest(before, limit)]


def _xtrim(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    """By the lowest number that is kept, as all callers ask."""
    if args[1] != b"MINID":
        raise ValueError("XTRIM goes by MINID here")
    return keys.stream(args[0].decode()).forget_before(_position(args[-1]))


def _del(keys: Keys, tx: Transaction, args: Sequence[bytes]) -> int:
    for name in args:
        keys.drop(name.decode())
    return len(args)


COMMANDS: dict[str, Command] = {
    "HGET": lambda keys, tx, args: tx.hget(args[0].decode(), args[1]),
    "HMGET": lambda keys, tx, args: tx.hmget(args[0].decode(), args[1:]),
    "HGETALL": lambda keys, tx, args: _flat(tx.hgetall(args[0].decode())),
    "HKEYS": lambda keys, tx, args: list(tx.hgetall(args[0].decode())),
    "HVALS": lambda keys, tx, args: list(tx.hgetall(args[0].decode()).values()),
    "HLEN": lambda keys, tx, args: tx.hlen(args[0].decode()),
    "HEXISTS": lambda keys, tx, args: int(tx.hget(args[0].decode(), args[1]) is not None),
    "HSET": _hset,
    "HSETNX": _hsetnx,
    "HDEL": lambda keys, tx, args: tx.hdel(args[0].decode(), *args[1:]),
    "HINCRBY": lambda keys, tx, args: tx.hincrby(args[0].decode(), args[1], int(args[2])),
    "HSCAN": _hscan,
    "ZADD": _zadd,
    "ZREM": lambda keys, tx, args: sum(tx.zrem(args[0].decode(), member) for member in args[1:]),
    "ZCARD": lambda keys, tx, args: tx.zcard(args[0].decode()),
    "ZSCORE": _zscore,
    "ZRANK": _zrank,
    "ZCOUNT": _zcount,
    "ZRANGE": _zrange,
    "ZRANGEBYSCORE": _zrangebyscore,
    "XRANGE": _xrange,
    "XREVRANGE": _xrevrange,
    "XTRIM": _xtrim,
    "DEL": _del,
}
