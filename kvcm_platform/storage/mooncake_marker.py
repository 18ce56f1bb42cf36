"""The object that tells whether a Mooncake store still holds what was put into it.

A master keeps its objects in memory alone: after a restart it is there, and they are not. So is the
marker then, and a new one with another life takes its place. It also names the segments that lent
memory when it was written, since whoever takes one away takes its objects. Blocking calls.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import xxhash

from kvcm_platform.transfer.mooncake_client import StoreClient
from kvcm_platform.transfer.mooncake_store import MISSING, NO_SPACE, said

KEY = ".kvcm-storage"
LONGEST = 32 << 10


@dataclass(frozen=True, slots=True)
class Mark:
    """`owner` is "" while nobody claimed the store; `life` is another when objects may be gone.

    `segments`: hashes of what tells them apart.
    """

    owner: str = ""
    life: str = ""
    segments: tuple[str, ...] = ()


def read_mark(client: StoreClient, seconds: float) -> Mark | None:
    """What the marker says; None where there is none. Raises OSError."""
    with client.window(seconds) as window:
        (code,) = client.move(window, "get", [KEY], [LONGEST], seconds)
        if code == MISSING:
            return None
        if code < 0:
            raise OSError(errno.EIO, f"the marker cannot be read: {said(code)}")
        return _parsed(bytes(window.view[:code]))


def renewed_mark(client: StoreClient, segments: Sequence[str], seconds: float, owner: str = "") -> Mark:
    """The marker as it is after a look at the segments: a missing one is put, with a life of its own.

    Raises OSError; ENOSPC where the store takes no object.
    """
    seen = tuple(sorted(xxhash.xxh3_64_hexdigest(name.encode()) for name in segments))
    was = read_mark(client, seconds)
    if was is None:
        return _put(client, Mark(owner, secrets.token_hex(8), seen), seconds)
    if was.segments == seen:
        return was
    is_lost = not set(was.segments) <= set(seen)
    now = replace(was, life=secrets.token_hex(8) if is_lost else was.life, segments=seen)
    return _replace(client, now, seconds)


def claimed_mark(client: StoreClient, owner: str, seconds: float) -> Mark:
    """Writes the owner into a marker that names none; what it says then. Raises OSError."""
    was = read_mark(client, seconds)
    if was is None:
        return _put(client, Mark(owner, secrets.token_hex(8)), seconds)
    if was.owner:
        return was
    return _replace(client, replace(was, owner=owner), seconds)


def try_out(client: StoreClient, seconds: float) -> None:
    """Puts an object, gets it back and removes it. Raises OSError; ENOSPC where the store takes none."""
    key, content = f"{KEY}-trial-{secrets.token_hex(8)}", secrets.token_bytes(16)
    with client.window(seconds) as window:
        window.view[: len(content)] = content
        _require_put(client.move(window, "put", [key], [len(content)], seconds)[0])
        window.view[: len(content)] = bytes(len(content))
        (code,) = client.move(window, "get", [key], [len(content)], seconds)
        is_equal = window.view[: len(content)] == content
    client.call("remove", [key], seconds, is_forced=True)
    if code != len(content) or not is_equal:
        raise OSError(errno.EIO, "what was put reads back differently" if code >= 0 else said(code))


def _replace(client: StoreClient, mark: Mark, seconds: float) -> Mark:
    # By force: every look at the marker leaves a lease on it.
    client.call("remove", [KEY], seconds, is_forced=True)
    return _put(client, mark, seconds)


def _put(client: StoreClient, mark: Mark, seconds: float) -> Mark:
    """Of two that put at once the first one counts: the store keeps an object that is there."""
    text = json.dumps(asdict(mark)).encode()
    if len(text) > LONGEST:
        text = json.dumps(asdict(replace(mark, segments=()))).encode()
    with client.window(seconds) as window:
        window.view[: len(text)] = text
        # Pinned: the store may evict any block before it.
        (code,) = client.move(window, "put", [KEY], [len(text)], seconds, is_pinned=True)
    _require_put(code)
    put = read_mark(client, seconds)
    if put is None:
        raise OSError(errno.EIO, "the marker is not there after it was put")
    return put


def _require_put(code: int) -> None:
    if code != 0:
        raise OSError(errno.ENOSPC if code == NO_SPACE else errno.EIO, f"nothing can be put: {said(code)}")


def _parsed(raw: bytes) -> Mark:
    """Whatever cannot be read as a marker of ours is somebody else's."""
    try:
        data = json.loads(raw)
        return Mark(str(data["owner"]), str(data["life"]), tuple(map(str, data["segments"])))
    except (ValueError, KeyError, TypeError):
        return Mark(owner=f"unreadable marker {raw[:64]!r}", life="unreadable")
