"""Mounted directories (`nfs`, `hf3fs`, `vcns_hf3fs`): deletion punches slots and unlinks empty files."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri, file_root

from . import files
from .backend import FreedObject, SlotLedger

THREADS = 4


class MountedBackend:
    """`DataStorageBackend` over a directory. A hung mount hangs its threads, never the caller."""

    def __init__(self, entry: StorageEntry, ledger: SlotLedger) -> None:
        self.entry = entry
        self._ledger = ledger
        self._root = file_root(entry)
        self._free_files: set[str] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"files-{entry.name}")

    async def open(self) -> None:
        await self._run(os.makedirs, self._root, 0o755, True)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    async def usage_ratio(self) -> float | None:
        ratio: float = await self._run(files.usage_ratio, self._root)
        return ratio

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        def look() -> list[bool]:
            return [os.path.exists(files.checked(self._root, uri.path)) for uri in uris]

        found: list[bool] = await self._run(look)
        return found

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        by_file: dict[str, list[int]] = defaultdict(list)
        for index, item in enumerate(objects):
            by_file[item.uri.path].append(index)
        reasons = [""] * len(objects)
        paths = list(by_file.items())
        for start in range(0, len(paths), THREADS * 16):
            part = paths[start : start + THREADS * 16]
            results = await asyncio.gather(
                *(self._delete_in(path, [objects[i] for i in indexes]) for path, indexes in part)
            )
            for reason, (_, indexes) in zip(results, part, strict=True):
                for index in indexes:
                    reasons[index] = reason
        return reasons

    async def _delete_in(self, path: str, items: Sequence[FreedObject]) -> str:
        """Frees slots of one file; the reason when that failed."""
        try:
            files.checked(self._root, path)
            if items[0].slots_in_file <= 1:
                await self._run(files.unlink, path)
                return ""
            await self._run(_punch_all, path, items)
            is_free = await self._ledger.free(
                path,
                items[0].slots_in_file,
                [item.uri.slot for item in items],
                is_second_pass=all(item.is_second_pass for item in items),
            )
            if is_free:
                await self._run(files.unlink, path)
                self._free_files.add(path)
        except (OSError, files.UnsafePath) as error:
            return str(error)
        return ""

    async def settled(self, objects: Sequence[FreedObject]) -> None:
        gone = self._free_files & {item.uri.path for item in objects}
        if gone:
            await self._ledger.forget(sorted(gone))
            self._free_files -= gone


def _punch_all(path: str, items: Sequence[FreedObject]) -> None:
    for item in items:
        files.punch(path, item.uri.offset, item.uri.size)
