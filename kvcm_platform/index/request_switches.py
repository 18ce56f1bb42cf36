"""What metadata processes tell of the calls they answer, in Redis: a hash that each of them follows.

`e:<group number>` -> {"k": rate, "until": unix ms}: the calls of the group's instances go sampled into its
stream (core.sampling says which blocks). `c:<capture id>` -> {"instances": [...], "until": unix ms}: the
calls of these instances go whole into the capture's stream. A switch acts until its time, so nobody goes
on with what everybody has forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import redis

from . import keyspace
from .connection import Commands


@dataclass(frozen=True, slots=True)
class SampleSwitch:
    """`k`: one block in 2^k is told, of shallow ones more. `until_ms` is unix time."""

    k: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class CaptureSwitch:
    instances: frozenset[str]
    until_ms: int


@dataclass(frozen=True, slots=True)
class Switches:
    """Samples by group number, captures by id."""

    samples: Mapping[int, SampleSwitch] = field(default_factory=dict)
    captures: Mapping[str, CaptureSwitch] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes]) -> Switches:
        samples: dict[int, SampleSwitch] = {}
        captures: dict[str, CaptureSwitch] = {}
        for name, text in fields.items():
            kind, _, rest = name.decode().partition(":")
            data = json.loads(text)
            if kind == "e":
                samples[int(rest)] = SampleSwitch(data["k"], data["until"])
            elif kind == "c":
                captures[rest] = CaptureSwitch(frozenset(data["instances"]), data["until"])
        return cls(samples, captures)


async def read(commands: Commands) -> Switches:
    flat: list[bytes] = await commands.call("HGETALL", keyspace.REQUEST_SWITCHES)
    return Switches.of(dict(zip(flat[::2], flat[1::2], strict=True)))


def read_blocking(client: redis.Redis) -> Switches:
    """Raises redis.RedisError."""
    return Switches.of(client.hgetall(keyspace.REQUEST_SWITCHES))


def set_samples(client: redis.Redis, samples: Mapping[int, SampleSwitch]) -> None:
    """Raises redis.RedisError."""
    if samples:
        client.hset(
            keyspace.REQUEST_SWITCHES,
            mapping={
                f"e:{number}": json.dumps({"k": one.k, "until": one.until_ms})
                for number, one in samples.items()
            },
        )


def drop_samples(client: redis.Redis, numbers: Collection[int]) -> None:
    """Raises redis.RedisError."""
    if numbers:
        client.hdel(keyspace.REQUEST_SWITCHES, *(f"e:{number}" for number in numbers))


def set_capture(client: redis.Redis, capture_id: str, switch: CaptureSwitch) -> None:
    """Raises redis.RedisError."""
    text = json.dumps({"instances": sorted(switch.instances), "until": switch.until_ms})
    client.hset(keyspace.REQUEST_SWITCHES, f"c:{capture_id}", text)


def drop_capture(client: redis.Redis, capture_id: str) -> None:
    """Raises redis.RedisError."""
    client.hdel(keyspace.REQUEST_SWITCHES, f"c:{capture_id}")
