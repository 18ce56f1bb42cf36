"""Moving block bytes to and from slot files (schemes file, hf3fs and vcns_hf3fs).

A block's place is the byte range [blkid × size, (blkid + 1) × size) of the file that its URI
names. Several blocks share a file, and other writers fill their slots at the same time, so a
file is never truncated and nothing outside the own slot is touched. Neighbouring slots of one
batch go in one system call.

A slot has exactly the size the engine declared, so a checksum has no place in it: `block_checksum`
makes one for the engine to keep, and a read that is given it compares. Replays derive what they
write from the block's name instead (`pattern`), so every byte read back can be compared.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from kvcm_platform.core.types import URI_SCHEME
from kvcm_platform.core.uris import FILE_TYPES, MARKER, DataUri, parse_uri

from .block import TransferError, verified

FILE_SCHEMES = frozenset(URI_SCHEME[kind] for kind in FILE_TYPES)
MAX_BUFFERS = 512
"""Slots in one system call; the kernel takes at most 1024 buffers."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Slot(Generic[Item]):
    """One block's place in its file, and what belongs to it. `index` is its place in the batch."""

    index: int
    uri: str
    offset: int
    size: int
    item: Item


class FileTransfer:
    """Reads and writes blocks in files. Safe to share among threads.

    `root`: refuse every path outside this folder; None = trust the URIs, which come from the
    metadata service. `threads`: files of one batch worked on at the same time. `call_seconds`: time
    limit of a batch. A mount that hangs holds the threads that are in it, and while one of them is
    stuck every further call fails at once; what a stuck write brings about when it comes free
    lands in places that are never given out again. `storage_root`: where the storage's marker lies,
    see Mount. `is_durable`: a write ends when it would survive a loss of power.
    """

    def __init__(
        self,
        *,
        root: Path | None = None,
        threads: int = 4,
        call_seconds: float = 10.0,
        storage_root: Path | None = None,
        is_durable: bool = False,
    ) -> None:
        self._root = None if root is None else root.resolve()
        self._mount = Mount(storage_root)
        self._is_durable = is_durable
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
        self._seconds = call_seconds
        self._stuck: list[Future[Any]] = []

    def write(self, uri: str, data: bytes | memoryview) -> None:
        """Write one block. Raises TransferError; ValueError if `data` is not exactly the slot."""
        _only(self.write_batch([(uri, data)]))

    def read(self, uri: str, checksum: int | None = None) -> bytes:
        """One block's bytes. Raises TransferError if the file or a part of the slot is missing, or if
        the bytes do not have the `checksum` (of `block_checksum`) that they were written with.
        """
        return _only(self.read_batch([uri], None if checksum is None else [checksum]))

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> list[None | TransferError]:
        """Write many blocks, files side by side. In order, None for each that is on its way to the
        disk, or the reason why it is not. ValueError as `write`; other files may then be written.
        """
        return self._each_file(partial(_write_file, self._mount, self._is_durable), blocks)

    def read_batch(
        self, uris: Iterable[str], checksums: Sequence[int] | None = None
    ) -> list[bytes | TransferError]:
        """The bytes of each block in order, or in its place the reason why there are none.

        With `checksums`, one a URI, bytes that differ from what was written are a reason too.
        """
        wanted = list(uris)
        found = self._each_file(_read_file, [(uri, None) for uri in wanted])
        return verified(wanted, found, checksums)

    def close(self) -> None:
        """Ends the threads; calls that are under way are finished first, but for those that hang."""
        self._pool.shutdown(wait=not self._hangs())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each_file(
        self, work: Callable[[str, list[Slot[Item]]], list[Result]], items: Sequence[tuple[str, Item]]
    ) -> list[Result | TransferError]:
        """What `work` makes of the slots of each file, put back into the order of `items`."""
        results: list[Any] = [None] * len(items)
        files: dict[str, list[Slot[Item]]] = defaultdict(list)
        for index, (uri, item) in enumerate(items):
            try:
                parsed = self._parse(uri)
            except TransferError as error:
                results[index] = error
            else:
                slot = Slot(index, uri, parsed.offset, parsed.size, item)
                files[parsed.path].append(slot)
        for slots in files.values():
            slots.sort(key=lambda slot: slot.offset)
        for slots, made in zip(files.values(), self._within_time(work, files), strict=True):
            for slot, result in zip(slots, made, strict=True):
                results[slot.index] = result
        return results

    def _within_time(
        self, work: Callable[[str, list[Slot[Item]]], list[Result]], files: Mapping[str, list[Slot[Item]]]
    ) -> list[Sequence[Result] | Sequence[TransferError]]:
        """What `work` makes of each file, or errors for the slots of those that take too long."""
        if self._hangs():
            return [
                _all_failed(slots, "an earlier call on this storage still hangs") for slots in files.values()
            ]
        calls = [self._pool.submit(work, path, slots) for path, slots in files.items()]
        _, late = wait(calls, timeout=self._seconds)
        self._stuck += [call for call in late if not call.cancel()]
        reason = f"no answer within {self._seconds:g} s"
        return [
            _all_failed(slots, reason) if call in late else call.result()
            for call, slots in zip(calls, files.values(), strict=True)
        ]

    def _hangs(self) -> bool:
        self._stuck = [call for call in self._stuck if not call.done()]
        return bool(self._stuck)

    def _parse(self, uri: str) -> DataUri:
        try:
            parsed = parse_uri(uri)
        except ValueError as error:
            raise TransferError(uri, str(error)) from error
        if parsed.scheme not in FILE_SCHEMES:
            raise TransferError(uri, f"no file transfer for scheme {parsed.scheme}")
        if not parsed.size:
            raise TransferError(uri, "the URI has no size")
        if "/../" in parsed.path or parsed.path.endswith("/.."):
            raise TransferError(uri, "the path leaves its folder")
        if self._root is not None and not Path(parsed.path).resolve().is_relative_to(self._root):
            raise TransferError(uri, f"the path is outside {self._root}")
        return parsed


def _only(results: list[Result | TransferError]) -> Result:
    (result,) = results
    if isinstance(result, TransferError):
        raise result
    return result


def _runs(slots: list[Slot[Item]]) -> Iterator[list[Slot[Item]]]:
    """Pieces of a sorted list whose byte ranges follow each other without a gap."""
    run: list[Slot[Item]] = []
    for slot in slots:
        if run and (slot.offset != run[-1].offset + run[-1].size or len(run) >= MAX_BUFFERS):
            yield run
            run = []
        run.append(slot)
    if run:
        yield run


def _failed(slots: Sequence[Slot[Item]], error: OSError) -> list[TransferError]:
    return _all_failed(slots, error.strerror or str(error))


def _all_failed(slots: Sequence[Slot[Item]], reason: str) -> list[TransferError]:
    return [TransferError(slot.uri, reason) for slot in slots]


class Mount:
    """The root of a storage, which must not be mistaken for what lies below its mount when that is gone.

    A root that had a marker once must have it whenever a folder is to be made: else the bytes would
    go to the local disk. Managers that leave no markers are fine.
    """

    def __init__(self, root: Path | None) -> None:
        self._marker = None if root is None else root / MARKER
        self._was_there = False

    def require(self) -> None:
        """Raises FileNotFoundError where the marker was and is not any more."""
        if self._marker is None:
            return
        if self._marker.exists():
            self._was_there = True
        elif self._was_there:
            raise FileNotFoundError(errno.ENOENT, "the storage is not mounted any more", str(self._marker))


def _write_file(
    mount: Mount, is_durable: bool, path: str, slots: list[Slot[bytes | memoryview]]
) -> list[None | TransferError]:
    for slot in slots:
        if len(slot.item) != slot.size:
            raise ValueError(f"{slot.uri}: {len(slot.item)} bytes for a slot of {slot.size}")
    try:
        handle = _open_for_writing(mount, path)
    except OSError as error:
        return [*_failed(slots, error)]
    try:
        results = [result for run in _runs(slots) for result in _write_run(handle, run)]
        if is_durable:
            os.fsync(handle)
        return results
    except OSError as error:
        return [*_failed(slots, error)]
    finally:
        os.close(handle)


def _write_run(handle: int, run: list[Slot[bytes | memoryview]]) -> list[None | TransferError]:
    try:
        _write_all(handle, [slot.item for slot in run], run[0].offset)
    except OSError as error:
        return [*_failed(run, error)]
    return [None] * len(run)


def _open_for_writing(mount: Mount, path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
        mount.require()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o644)


def _write_all(handle: int, buffers: list[bytes | memoryview], offset: int) -> None:
    while buffers:
        written = os.pwritev(handle, buffers, offset)
        offset += written
        while buffers and written >= len(buffers[0]):
            written -= len(buffers.pop(0))
        if written:
            buffers[0] = memoryview(buffers[0])[written:]


def _read_file(path: str, slots: list[Slot[None]]) -> list[bytes | TransferError]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return [*_failed(slots, error)]
    try:
        return [block for run in _runs(slots) for block in _read_run(handle, run)]
    finally:
        os.close(handle)


def _read_run(handle: int, run: list[Slot[None]]) -> list[bytes | TransferError]:
    buffers = [bytearray(slot.size) for slot in run]
    try:
        got = _read_all(handle, buffers, run[0].offset)
    except OSError as error:
        return [*_failed(run, error)]
    blocks: list[bytes | TransferError] = []
    for slot, buffer in zip(run, buffers, strict=True):
        is_whole = got >= slot.size
        blocks.append(
            bytes(buffer) if is_whole else TransferError(slot.uri, "the file ends before the slot does")
        )
        got -= slot.size
    return blocks


def _read_all(handle: int, buffers: list[bytearray], offset: int) -> int:
    """Fills the buffers; returns the bytes read, fewer only at the end of the file."""
    views = [memoryview(buffer) for buffer in buffers]
    total = 0
    while views:
        got = os.preadv(handle, views, offset + total)
        if not got:
            break
        total += got
        while views and got >= len(views[0]):
            got -= len(views.pop(0))
        if got:
            views[0] = views[0][got:]
    return total
