"""Moving block bytes to and from slot files (schemes file, hf3fs and vcns_hf3fs).

A block's place is the byte range [blkid × size, (blkid + 1) × size) of the file that its URI
names. Several blocks share a file, and other writers fill their slots at the same time, so a
file is never truncated and nothing outside the own slot is touched. Neighbouring slots of one
batch go in one system call.

The bytes carry no checksum of ours: a slot has exactly the size the engine declared, and its
content is the engine's. Replays derive what they write from the block's name instead
(`pattern`), so every byte read back can be compared.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

from kvcm_platform.core.uris import DataUri, parse_uri

FILE_SCHEMES = frozenset({"file", "hf3fs", "vcns_hf3fs"})
MAX_BUFFERS = 512
"""Slots in one system call; the kernel takes at most 1024 buffers."""

Item = TypeVar("Item")


class TransferError(Exception):
    """A block's bytes could not be moved; `uri` is the first one concerned."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{uri}: {reason}")
        self.uri = uri
        self.reason = reason


class FileTransfer:
    """Reads and writes blocks in files. Safe to share among threads.

    `root`: refuse every path outside this folder; None = trust the URIs, which come from the
    metadata service. `threads`: files of one batch worked on at the same time.
    """

    def __init__(self, *, root: Path | None = None, threads: int = 4) -> None:
        self._root = None if root is None else root.resolve()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")

    def write(self, uri: str, data: bytes | memoryview) -> None:
        """Write one block. Raises TransferError; ValueError if `data` is not exactly the slot."""
        _write_file(*self._group([(uri, data)])[0])

    def read(self, uri: str) -> bytes:
        """One block's bytes. Raises TransferError if the file or a part of the slot is missing."""
        return _read_file(*self._group([(uri, None)])[0])[0]

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> None:
        """Write many blocks, files side by side; ends when all are done or the first error is known.

        Raises as `write`. After an error any of the blocks may have been written.
        """
        list(self._each_file(_write_file, self._group(blocks)))

    def read_batch(self, uris: Iterable[str]) -> list[bytes | TransferError]:
        """The bytes of each block in order, or in its place the reason why there are none."""
        wanted = list(uris)
        groups = self._group([(uri, index) for index, uri in enumerate(wanted)])
        result: list[bytes | TransferError] = [b""] * len(wanted)
        for group, blocks in zip(groups, self._each_file(_try_read_file, groups), strict=True):
            for (_, _, index), block in zip(group[1], blocks, strict=True):
                result[index] = block
        return result

    def close(self) -> None:
        """Ends the threads; calls that are under way are finished first."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each_file(
        self,
        work: Callable[[str, list[tuple[str, DataUri, Item]]], object],
        groups: list[tuple[str, list[tuple[str, DataUri, Item]]]],
    ) -> Iterable:  # type: ignore[type-arg]
        if len(groups) == 1:
            return [work(*groups[0])]
        return self._pool.map(lambda group: work(*group), groups)

    def _group(self, items: Sequence[tuple[str, Item]]) -> list[tuple[str, list[tuple[str, DataUri, Item]]]]:
        """By file, slots ascending."""
        files: dict[str, list[tuple[str, DataUri, Item]]] = defaultdict(list)
        for uri, item in items:
            parsed = _parse(uri)
            self._check(uri, parsed.path)
            files[parsed.path].append((uri, parsed, item))
        for slots in files.values():
            slots.sort(key=lambda entry: entry[1].offset)
        return list(files.items())

    def _check(self, uri: str, path: str) -> None:
        if "/../" in path or path.endswith("/.."):
            raise TransferError(uri, "the path leaves its folder")
        if self._root is not None and not Path(path).resolve().is_relative_to(self._root):
            raise TransferError(uri, f"the path is outside {self._root}")


def _parse(uri: str) -> DataUri:
    try:
        parsed = parse_uri(uri)
    except ValueError as error:
        raise TransferError(uri, str(error)) from error
    if parsed.scheme not in FILE_SCHEMES:
        raise TransferError(uri, f"no file transfer for scheme {parsed.scheme}")
    if not parsed.size:
        raise TransferError(uri, "the URI has no size")
    return parsed


def _runs(
    slots: list[tuple[str, DataUri, Item]],
) -> Iterable[list[tuple[str, DataUri, Item]]]:
    """Pieces of a sorted list whose byte ranges follow each other without a gap."""
    run: list[tuple[str, DataUri, Item]] = []
    for entry in slots:
        if run and (entry[1].offset != run[-1][1].offset + run[-1][1].size or len(run) >= MAX_BUFFERS):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _write_file(path: str, slots: list[tuple[str, DataUri, bytes | memoryview]]) -> None:
    for uri, parsed, data in slots:
        if len(data) != parsed.size:
            raise ValueError(f"{uri}: {len(data)} bytes for a slot of {parsed.size}")
    try:
        handle = _open_for_writing(path)
        try:
            for run in _runs(slots):
                _write_all(handle, [data for _, _, data in run], run[0][1].offset)
        finally:
            os.close(handle)
    except OSError as error:
        raise TransferError(slots[0][0], error.strerror or str(error)) from error


def _open_for_writing(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileNotFoundError:
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


def _read_file(path: str, slots: list[tuple[str, DataUri, Item]]) -> list[bytes]:
    """Raises TransferError as soon as one slot is not wholly there."""
    blocks = []
    for block in _try_read_file(path, slots):
        if isinstance(block, TransferError):
            raise block
        blocks.append(block)
    return blocks


def _try_read_file(path: str, slots: list[tuple[str, DataUri, Item]]) -> list[bytes | TransferError]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return [TransferError(uri, error.strerror or str(error)) for uri, _, _ in slots]
    try:
        return [block for run in _runs(slots) for block in _read_run(handle, run)]
    finally:
        os.close(handle)


def _read_run(handle: int, run: list[tuple[str, DataUri, Item]]) -> list[bytes | TransferError]:
    buffers = [bytearray(parsed.size) for _, parsed, _ in run]
    try:
        got = _read_all(handle, buffers, run[0][1].offset)
    except OSError as error:
        return [TransferError(uri, error.strerror or str(error)) for uri, _, _ in run]
    blocks: list[bytes | TransferError] = []
    for (uri, parsed, _), buffer in zip(run, buffers, strict=True):
        is_whole = got >= parsed.size
        blocks.append(bytes(buffer) if is_whole else TransferError(uri, "the file ends before the slot does"))
        got -= parsed.size
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
