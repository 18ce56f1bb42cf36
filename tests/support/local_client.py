"""redis-py's client over an index in this process, so that tests look into both in the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import redis

from kvcm_platform.index.embedded.memory import MemoryStore
from kvcm_platform.index.embedded.rocks import RocksStore
from kvcm_platform.index.local.server import LocalServer, is_local

NEVER = 3600.0


class LocalClient(redis.Redis):
    """The index's own keys are those of `server`, all others those of Redis."""

    def __init__(self, server: LocalServer, socket: Path) -> None:
        super().__init__(unix_socket_path=str(socket), protocol=2)
        self.server = server

    def execute_command(self, *args: Any, **options: Any) -> Any:
        name, *rest = args
        if name == "DEL":
            for key in rest:
                self.server.end_lease(key.decode() if isinstance(key, bytes) else key)
        if not is_local(args):
            return super().execute_command(*args, **options)
        if name in {"XTRIM", "XDEL"}:
            return self._shorten(str(args[1]), None if name == "XTRIM" else args[2])
        reply = self.server.execute(*args)
        options.pop("keys", None)
        callback = self.response_callbacks.get(name)
        return callback(reply, **options) if callback else reply

    def _shorten(self, stream: str, lost: bytes | None) -> None:
        entries = self.server.keys.stream(stream).entries
        kept = [entry for entry in entries if lost is not None and b"%d-0" % entry[0] != lost]
        entries.clear()
        entries.extend(kept)

    def scan_iter(self, match: Any = None, **options: Any) -> Iterator[bytes]:
        keys = self.server.keys
        names = [*keys.hash_names(), *keys.set_names(), *self.server.lease_names()]
        yield from (name.encode() for name in names if match is None or fnmatchcase(name, match))
        yield from super().scan_iter(match, **options)


@asynccontextmanager
async def local_client(
    backend: str, folder: Path, socket: Path, snapshot: Path | None = None
) -> AsyncIterator[LocalClient]:
    """`backend` is `local`, with a `snapshot` written only when it is waited for, or `rocksdb`."""
    store = RocksStore(folder) if backend == "rocksdb" else await MemoryStore(snapshot, NEVER).open()
    client = LocalClient(LocalServer(store), socket)
    try:
        yield client
    finally:
        client.close()
        await store.close()
