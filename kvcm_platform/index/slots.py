"""Where a key lives in a Redis Cluster: its slot, the key of a command, and the map of slots."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .address import HostPort

COUNT = 16384
_SCRIPTS = frozenset({"FCALL", "FCALL_RO", "EVAL", "EVALSHA"})
_KEYLESS = frozenset(
    {"TIME", "INFO", "PING", "WAIT", "WAITAOF", "FUNCTION", "CONFIG", "SCAN", "CLUSTER", "ROLE"}
)


def slot_of(key: str | bytes) -> int:
    """CRC16 of what stands between the first `{` and the next `}`, or of the whole key."""
    name = key.encode() if isinstance(key, str) else key
    begin = name.find(b"{")
    if begin >= 0:
        end = name.find(b"}", begin + 1)
        if end > begin + 1:
            name = name[begin + 1 : end]
    return binascii.crc_hqx(name, 0) % COUNT


def key_of(command: Sequence[Any]) -> str | bytes:
    """The first key that a command names. All keys of one command share a slot.

    Raises ValueError for a command without one: say `at=` which server is meant.
    """
    name = command[0]
    if name in _SCRIPTS:
        if int(command[2]) > 0:
            return command[3]  # type: ignore[no-any-return]
    elif name == "XREAD":
        return command[command.index("STREAMS") + 1]  # type: ignore[no-any-return]
    elif name not in _KEYLESS:
        return command[1]  # type: ignore[no-any-return]
    raise ValueError(f"{name} names no key")


@dataclass(frozen=True, slots=True)
class Master:
    """A master and the (first, last) slots that it serves; a new one may have none yet."""

    host: HostPort
    slots: tuple[tuple[int, int], ...]


def parse_shards(reply: Sequence[Any], asked: HostPort, *, is_tls: bool) -> list[Master]:
    """CLUSTER SHARDS as `asked` answered it: a node without an address of its own is that one.

    A failed master counts only while nobody has its slots.
    """
    found = []
    for shard in map(_as_map, reply):
        slots = tuple(zip(shard["slots"][::2], shard["slots"][1::2], strict=True))
        masters = [node for node in map(_as_map, shard["nodes"]) if node["role"] == b"master"]
        alive = [node for node in masters if node.get("health") != b"fail"]
        for node in (alive or masters[: 1 if slots else 0])[:1]:
            host = (node.get("endpoint") or node.get("ip") or b"").decode()
            port = node.get("tls-port", node.get("port")) if is_tls else node.get("port")
            found.append(Master((asked[0] if host in {"", "?"} else host, int(port or 0)), slots))
    return found


def _as_map(flat: Sequence[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


@dataclass(frozen=True, slots=True)
class Redirection:
    """A node's answer that the key is elsewhere: `is_asking` for this one command alone."""

    host: HostPort
    slot: int
    is_asking: bool


def redirection(text: str, asked: HostPort) -> Redirection | None:
    """`MOVED <slot> <host>:<port>` or `ASK …`; None for any other error."""
    kind, _, rest = text.partition(" ")
    if kind not in {"MOVED", "ASK"}:
        return None
    slot, _, where = rest.partition(" ")
    host, _, port = where.rpartition(":")
    return Redirection((host or asked[0], int(port)), int(slot), kind == "ASK")
