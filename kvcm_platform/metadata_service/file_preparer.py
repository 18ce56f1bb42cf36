"""Makes the empty files of a write on storages with `touch_file_when_create`.

In threads of their own, which a mount that hangs keeps: a Start waits for them for a few
hundredths of a second, and as long as one hangs no other is sent after it.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Sequence

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import file_root, parse_uri
from kvcm_platform.index.codec import parse_location
from kvcm_platform.storage import files, marker

SIDE_BY_SIDE = 4
"""Threads of one Start."""
AT_ONCE = 8
"""Starts whose files are made on one storage at the same time; others wait for them, within their time."""


class DirectoryFiles:
    """`core.ports.FilePreparer` of one process. Use from one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._late: dict[str, list[threading.Thread]] = {}

    async def prepare(self, storage: StorageEntry, locations: Sequence[bytes]) -> None:
        if not storage.spec.get("touch_file_when_create"):
            return
        root = file_root(storage)
        self._require_answering(root)
        specs = [spec.uri for wire in locations for spec in parse_location(wire).location_specs]
        paths = list(dict.fromkeys(parse_uri(uri).path for uri in specs))
        threads: list[threading.Thread] = []
        try:
            async with asyncio.timeout(self._seconds):
                async with self._gates.setdefault(root, asyncio.Semaphore(AT_ONCE)):
                    self._require_answering(root)
                    parts = [paths[at::SIDE_BY_SIDE] for at in range(min(SIDE_BY_SIDE, len(paths)))]
                    await asyncio.gather(*(_in_thread(root, part, threads) for part in parts))
        except TimeoutError as error:
            if error.errno is not None:
                raise
            self._late[root] = [*self._late.get(root, ()), *threads]
            reason = f"its files were not made within {self._seconds * 1000:g} ms"
            raise TimeoutError(errno.ETIMEDOUT, reason, root) from error
        except files.UnsafePath as error:
            raise PermissionError(errno.EPERM, str(error), root) from error

    def _require_answering(self, root: str) -> None:
        self._late[root] = [thread for thread in self._late.get(root, ()) if thread.is_alive()]
        if self._late[root]:
            raise TimeoutError(errno.ETIMEDOUT, "files of an earlier write are still being made", root)


async def _in_thread(root: str, paths: Sequence[str], threads: list[threading.Thread]) -> None:
    """Raises OSError, UnsafePath. The thread goes on when nobody waits any more, but not past the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def work() -> None:
        error: Exception | None = None
        try:
            marker.require_mark(root)
            for path in paths:
                files.touch(root, path)
        except (OSError, files.UnsafePath) as caught:
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    thread = threading.Thread(target=work, name=f"files {root}", daemon=True)
    threads.append(thread)
    thread.start()
    await done
