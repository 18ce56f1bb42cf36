"""Moving block bytes to and from Mooncake's store (scheme mooncake): one object a part of a block.

The bytes go through memory shared with the process that holds the store's client
(`mooncake_client`), one copy on either side of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kvcm_platform.core.uris import parse_uri

from .block import TransferError, verified
from .mooncake_client import StoreClient
from .mooncake_store import StoreAway, StoreSettings, said

BATCH_BYTES = 16 << 20
"""Bytes of one call on the store that moves several objects."""
WINDOW_BYTES = {"tcp": 128 << 20, "rdma": 32 << 20}
"""The largest object. Memory that is never touched costs nothing, unless RDMA pins it."""
BATCH_OBJECTS = 512
"""Objects of one call on the store."""
SCHEME = "mooncake"


class _Object(NamedTuple):
    """`place` is its index in the batch."""

    place: int
    uri: str
    key: str
    size: int


class MooncakeTransfer:
    """`BlockTransfer` over one store. `threads`: calls at the same time. `call_seconds`: time limit of
    each call on the store; a batch of many bytes takes several, and ends with the first without answer.
    """

    def __init__(
        self,
        settings: StoreSettings,
        *,
        threads: int = 4,
        call_seconds: float = 10.0,
        window_bytes: int = 0,
    ) -> None:
        window_bytes = window_bytes or WINDOW_BYTES.get(settings.protocol, min(WINDOW_BYTES.values()))
        self._client = StoreClient(settings, windows=threads, window_bytes=window_bytes)
        self._window_bytes = window_bytes
        self._seconds = call_seconds

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> list[None | TransferError]:
        """As BlockTransfer. An object that is there already is left as it is: URIs are never reused."""

        def put(objects: list[_Object]) -> list[None | TransferError]:
            with self._client.window(self._seconds) as window:
                at = 0
                for item in objects:
                    window.view[at : at + item.size] = blocks[item.place][1]
                    at += item.size
                sizes = [item.size for item in objects]
                keys = [item.key for item in objects]
                codes = self._client.move(window, "put", keys, sizes, self._seconds)
            return [
                None if code == 0 else TransferError(item.uri, said(code))
                for item, code in zip(objects, codes, strict=True)
            ]

        for uri, data in blocks:
            size = _size_of(uri)
            if size is not None and len(data) != size:
                raise ValueError(f"{uri}: {len(data)} bytes for a block of {size}")
        return self._in_calls([uri for uri, _ in blocks], put)

    def read_batch(
        self, uris: Sequence[str], checksums: Sequence[int] | None = None
    ) -> list[bytes | TransferError]:
        """As BlockTransfer."""

        def get(objects: list[_Object]) -> list[bytes | TransferError]:
            with self._client.window(self._seconds) as window:
                sizes = [item.size for item in objects]
                keys = [item.key for item in objects]
                codes = self._client.move(window, "get", keys, sizes, self._seconds)
                places = itertools.accumulate(sizes, initial=0)
                return [
                    _read(item, code, window.view[at : at + item.size])
                    for item, code, at in zip(objects, codes, places, strict=False)
                ]

        return verified(uris, self._in_calls(uris, get), checksums)

    def close(self) -> None:
        """Ends the store's client; calls that are under way fail."""
        self._client.close()

    def _in_calls(self, uris: Sequence[str], call: Callable[[list[_Object]], list[Any]]) -> list[Any]:
        """What `call` makes of the objects, in the order of their URIs, as few calls as the window allows."""
        results: list[Any] = [TransferError(uri, "not tried") for uri in uris]
        objects: list[_Object] = []
        for index, uri in enumerate(uris):
            try:
                objects.append(self._object(index, uri))
            except ValueError as error:
                results[index] = TransferError(uri, str(error))
        away = ""
        for part in _parts(objects, min(BATCH_BYTES, self._window_bytes)):
            try:
                made = [TransferError(item.uri, away) for item in part] if away else call(part)
            except StoreAway as error:
                away = str(error)
                made = [TransferError(item.uri, away) for item in part]
            for item, result in zip(part, made, strict=True):
                results[item.place] = result
        return results

    def _object(self, index: int, uri: str) -> _Object:
        """Raises ValueError for what names no object of a store."""
        parsed = parse_uri(uri)
        key = parsed.params.get("key", "")
        if parsed.scheme != SCHEME:
            raise ValueError(f"no transfer through Mooncake for scheme {parsed.scheme}")
        if not key or not parsed.size:
            raise ValueError("the URI lacks a key or a size")
        if parsed.size > self._window_bytes:
            raise ValueError(f"the block is larger than the transfer's buffer of {self._window_bytes} bytes")
        return _Object(index, uri, key, parsed.size)


def _size_of(uri: str) -> int | None:
    try:
        return parse_uri(uri).size or None
    except ValueError:
        return None


def _parts(objects: list[_Object], batch_bytes: int) -> Iterator[list[_Object]]:
    """Pieces for one call each. A key is in a call once: the store fills one of its places and says
    that all are filled.
    """
    part: list[_Object] = []
    keys: set[str] = set()
    total = 0
    for item in objects:
        if part and (total + item.size > batch_bytes or len(part) >= BATCH_OBJECTS or item.key in keys):
            yield part
            part, keys, total = [], set(), 0
        part.append(item)
        keys.add(item.key)
        total += item.size
    if part:
        yield part


def _read(item: _Object, code: int, place: memoryview) -> bytes | TransferError:
    if code == item.size:
        return bytes(place)
    if code >= 0:
        return TransferError(item.uri, f"it has {code} bytes instead of {item.size}")
    return TransferError(item.uri, said(code))
