"""What all directories (`nfs`, `hf3fs`, `vcns_hf3fs`, `dummy`) do alike: slots are punched, then unlinked."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import URI_SCHEME
from kvcm_platform.core.uris import MARKER, DataUri, file_root

from . import files, marker
from .backend import Capabilities, FreedObject, Ledgers, ProbeOrder, ProbeResult, StoredObject
from .freeing import FileWork, free_slots, unlink_files
from .walk import FoundFile, stored_files

CAPABILITIES = Capabilities(needs_mount=True, has_slot_files=True, can_punch_holes=True, has_capacity=True)

THREADS = 4
"""Operations on one storage at a time."""
ANSWER_SECONDS = 10.0
STEP_FILES = 64
"""Files that are freed in one go in a thread."""
WALK_BATCH = 512
"""Files that a walk looks at in one go in a thread."""
_CONTENT = b"kvcm probe\n"


_hanging: dict[str, Future[Any]] = {}
"""Operations that did not come back, by root: while one hangs no other is sent after it."""


class Hanging(OSError):
    """The mount did not answer in time, or an earlier operation on it still hangs."""


class MountedBackend:
    """`DataStorageBackend` over a directory. A hung mount keeps a few threads, never the caller."""

    def __init__(self, entry: StorageEntry, ledgers: Ledgers) -> None:
        self.entry = entry
        self._ledger = ledgers.slots
        self._root = file_root(entry)
        self._free_files: set[str] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"files-{entry.name}")

    async def open(self) -> None:
        def make() -> None:
            os.makedirs(self._root, 0o755, exist_ok=True)
            marker.mark(self._root)

        await self._run(make)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Runs a blocking call in a thread. Raises Hanging after ANSWER_SECONDS."""
        stuck = _hanging.get(self._root)
        if stuck is not None:
            if not stuck.done():
                raise Hanging(errno.ETIMEDOUT, "an earlier operation still hangs", self._root)
            _hanging.pop(self._root, None)
        future = self._threads.submit(call, *args)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            if future.running():
                _hanging[self._root] = future
            raise Hanging(errno.ETIMEDOUT, f"no answer within {ANSWER_SECONDS:g} s", self._root) from error

    async def usage_ratio(self) -> float | None:
        used, size = await self._run(files.space, self._root)
        return used / size if size else 0.0

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        def look() -> list[bool]:
            marker.require_mark(self._root)
            return [_has_data(self._root, uri) for uri in uris]

        found: list[bool] = await self._run(look)
        return found

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        by_file: dict[str, list[int]] = defaultdict(list)
        for index, item in enumerate(objects):
            by_file[item.uri.path].append(index)
        works = [FileWork(path, [objects[i] for i in indexes]) for path, indexes in by_file.items()]
        steps = [works[at : at + STEP_FILES] for at in range(0, len(works), STEP_FILES)]
        for at in range(0, len(steps), THREADS):
            await asyncio.gather(*map(self._free, steps[at : at + THREADS]))
        reasons = [""] * len(objects)
        for work, indexes in zip(works, by_file.values(), strict=True):
            for index in indexes:
                reasons[index] = work.reason
        return reasons

    async def _free(self, works: Sequence[FileWork]) -> None:
        """Frees what is wanted of some files; each then says why it could not be."""
        await self._do(free_slots, works)
        shared = [work for work in works if work.is_shared and not work.reason]
        if not shared:
            return
        noted = await self._ledger.free([work.freed for work in shared])
        whole = [work for work, is_free in zip(shared, noted, strict=True) if is_free]
        if whole:
            await self._do(unlink_files, whole)
            self._free_files.update(work.path for work in whole if not work.reason)

    async def _do(self, step: Callable[[str, Sequence[FileWork]], None], works: Sequence[FileWork]) -> None:
        try:
            await self._run(step, self._root, works)
        except OSError as error:
            for work in works:
                work.reason = work.reason or str(error)

    async def settled(self, objects: Sequence[FreedObject]) -> None:
        gone = self._free_files & {item.uri.path for item in objects}
        if gone:
            await self._ledger.forget(sorted(gone))
            self._free_files -= gone

    async def objects(self) -> AsyncIterator[StoredObject]:
        await self._run(marker.require_mark, self._root)
        walk: Iterator[FoundFile] = stored_files(self._root)
        while batch := await self._run(_next_of, walk):
            for found in batch:
                yield self._object(found)

    def _object(self, found: FoundFile) -> StoredObject:
        uri = DataUri(URI_SCHEME[self.entry.type], self.entry.name, found.path, found.space_bytes, 0, {})
        folder = found.path[len(self._root) :].rpartition("/")[0]
        instance_id = folder.rpartition("/")[0]
        return StoredObject(uri, found.space_bytes, found.written_at, found.is_ours, instance_id)

    async def claim(self, owner: str) -> str:
        mark: marker.Mark = await self._run(marker.claim, self._root, owner)
        return mark.owner


def _next_of(walk: Iterator[FoundFile]) -> list[FoundFile]:
    return list(islice(walk, WALK_BATCH))


def _has_data(root: str, uri: DataUri) -> bool:
    """A path that leads out of the root has none: the storage was moved, or a link was put in its way."""
    try:
        return files.has_data(files.checked(root, uri.path), uri.offset, uri.size)
    except files.UnsafePath:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def probe_directory(entry: StorageEntry, order: ProbeOrder) -> ProbeResult:
    """Writes, reads back and deletes a small file beside the marker. Raises OSError."""
    root = Path(file_root(entry))
    if order.may_create:
        root.mkdir(parents=True, exist_ok=True)
        marker.mark(str(root), order.owner)
    elif order.is_trial and not os.path.lexists(root / MARKER):
        return _try_place(root)
    life = marker.read_mark(str(root)).life
    _write_and_read(root)
    used, size = files.space(str(root))
    return ProbeResult(True, used_bytes=used, capacity_bytes=size, content_life=life)


def _try_place(root: Path) -> ProbeResult:
    """Whether a root could be made, seen in the folder that is there. Raises OSError."""
    folder = root
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    _write_and_read(folder)
    used, size = files.space(str(folder))
    missing = "the folder" if folder != root else "its marker"
    return ProbeResult(True, f"{missing} is made when the storage is added", None, False, used, size)


def _write_and_read(folder: Path) -> None:
    path = folder / f".kvcm-probe-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(path, "xb") as file:
            file.write(_CONTENT)
            file.flush()
            os.fsync(file.fileno())
        if path.read_bytes() != _CONTENT:
            raise OSError(errno.EIO, "what was written reads back differently", str(path))
    finally:
        path.unlink(missing_ok=True)


def probe_mountpoint(entry: StorageEntry, order: ProbeOrder) -> ProbeResult:
    """The same below a mountpoint, which is never made. Raises OSError."""
    mountpoint = str(entry.spec["mountpoint"])
    if (order.may_create or order.is_trial) and not os.path.isdir(mountpoint):
        raise FileNotFoundError(errno.ENOENT, "the mountpoint does not exist", mountpoint)
    return probe_directory(entry, order)
