"""One door to the bytes of every storage: the URI says which transfer moves a block.

A URI's host is its storage's name, and names never move to another storage; so transfers are
made when a name is first met and kept. What the names stand for comes from a registration's
`storage_configs` (engines) or from the registry (duties).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.storage_configs import StorageDescription, described, read_storage_configs
from kvcm_platform.core.types import URI_SCHEME, StorageType
from kvcm_platform.core.uris import file_root_of

from .block import BlockTransfer, TransferError
from .files import FileTransfer
from .mooncake import MooncakeTransfer
from .mooncake_store import StoreSettings
from .pool import PoolTransfer
from .pool_discovery import PoolSpec
from .pool_token import pool_token

Item = TypeVar("Item")
Result = TypeVar("Result")

SIDE_BY_SIDE = 4
"""Storages of one batch that are worked on at the same time."""
RELOAD_SECONDS = 5.0
"""Shortest time between two questions what storages there are."""


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """`root`: see FileTransfer. `threads`: calls at the same time on one storage. `call_seconds`:
    time limit of one call on a storage. `pool_token`: what agents of memory pools ask for. `is_remote`:
    reach memory pools over the network even on their own host. `is_durable`: what is written to files
    would survive a loss of power.
    """

    root: Path | None = None
    threads: int = 4
    call_seconds: float = 10.0
    pool_token: str = field(default_factory=pool_token, repr=False)
    is_remote: bool = False
    is_durable: bool = False


Maker = Callable[[StorageDescription, TransferOptions], BlockTransfer]
"""Makes the transfer of one storage, without waiting for it: what is away shows in the calls."""


def _files(storage: StorageDescription, options: TransferOptions) -> BlockTransfer:
    try:
        storage_root = Path(file_root_of(_TYPE_BY_SCHEME[storage.type], storage.spec))
    except KeyError:
        storage_root = None
    return FileTransfer(
        root=options.root,
        threads=options.threads,
        call_seconds=options.call_seconds,
        storage_root=storage_root,
        is_durable=options.is_durable,
    )


def _pool(storage: StorageDescription, options: TransferOptions) -> BlockTransfer:
    return PoolTransfer(
        PoolSpec.of(storage.spec),
        token=options.pool_token,
        threads=options.threads,
        call_seconds=options.call_seconds,
        is_remote=options.is_remote,
    )


def _mooncake(storage: StorageDescription, options: TransferOptions) -> BlockTransfer:
    settings = StoreSettings.of(storage.spec)
    return MooncakeTransfer(settings, threads=options.threads, call_seconds=options.call_seconds)


MAKERS: dict[StorageType, Maker] = {
    StorageType.NFS: _files,
    StorageType.HF3FS: _files,
    StorageType.VCNS_HF3FS: _files,
    StorageType.TAIR_MEMPOOL: _pool,
    StorageType.DUMMY: _files,
    StorageType.MOONCAKE: _mooncake,
}
_TYPE_BY_SCHEME = {scheme: kind for kind, scheme in URI_SCHEME.items()}


class Transfers:
    """`BlockTransfer` over all storages that it was told of. Safe to share among threads.

    `reload` asks again what storages there are (an engine registers once more) and returns None
    where that fails. It is called when a URI names an unknown one, at most every RELOAD_SECONDS.
    """

    def __init__(
        self,
        storages: Iterable[StorageDescription] = (),
        *,
        options: TransferOptions | None = None,
        reload: Callable[[], Iterable[StorageDescription] | None] | None = None,
    ) -> None:
        self._options = options or TransferOptions()
        self._reload = reload
        self._reloaded_at: float | None = None
        self._storages: dict[str, StorageDescription] = {}
        self._transfers: dict[str, BlockTransfer] = {}
        self._lock = threading.Lock()
        self._reloading = threading.Lock()
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="transfers")
        self.update(storages)

    @classmethod
    def from_storage_configs(cls, text: str, **settings: Any) -> Self:
        """From the JSON that RegisterInstance answers. ValueError if it is none."""
        return cls(read_storage_configs(text), **settings)

    @classmethod
    def from_entries(cls, entries: Iterable[StorageEntry], **settings: Any) -> Self:
        """From storages of the registry."""
        return cls(map(described, entries), **settings)

    def update(self, storages: Iterable[StorageDescription]) -> None:
        """Takes in what is known now. Names that are not among them stay: their blocks may be read."""
        retired: list[BlockTransfer] = []
        with self._lock:
            for storage in storages:
                known = self._storages.get(storage.name)
                self._storages[storage.name] = storage
                if known is not None and (known.type, known.spec) != (storage.type, storage.spec):
                    transfer = self._transfers.pop(storage.name, None)
                    if transfer is not None:
                        retired.append(transfer)
        for transfer in retired:
            transfer.close()

    def write(self, uri: str, data: bytes | memoryview) -> None:
        """Write one block. Raises TransferError; ValueError if `data` is not exactly the block."""
        _only(self.write_batch([(uri, data)]))

    def read(self, uri: str, checksum: int | None = None) -> bytes:
        """One block's bytes. Raises TransferError."""
        return _only(self.read_batch([uri], None if checksum is None else [checksum]))

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> list[None | TransferError]:
        """As BlockTransfer; storages side by side."""
        return self._each_storage(
            [uri for uri, _ in blocks], blocks, lambda transfer, part: transfer.write_batch(part)
        )

    def read_batch(
        self, uris: Sequence[str], checksums: Sequence[int] | None = None
    ) -> list[bytes | TransferError]:
        """As BlockTransfer; storages side by side."""
        if checksums is None:
            return self._each_storage(uris, uris, lambda transfer, part: transfer.read_batch(part))

        def read(transfer: BlockTransfer, part: list[tuple[str, int]]) -> list[bytes | TransferError]:
            return transfer.read_batch([uri for uri, _ in part], [checksum for _, checksum in part])

        return self._each_storage(uris, list(zip(uris, checksums, strict=True)), read)

    def close(self) -> None:
        """Ends all transfers; calls that are under way are finished first."""
        self._pool.shutdown()
        with self._lock:
            transfers = list(self._transfers.values())
            self._transfers.clear()
            self._storages.clear()
        for transfer in transfers:
            transfer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each_storage(
        self,
        uris: Sequence[str],
        items: Sequence[Item],
        work: Callable[[BlockTransfer, list[Item]], Sequence[Result | TransferError]],
    ) -> list[Any]:
        """What `work` makes of each storage's items, put back into their order."""
        places: dict[str, list[int]] = defaultdict(list)
        for index, uri in enumerate(uris):
            places[_host(uri)].append(index)
        self._meet(places)

        def run(name: str) -> Sequence[Result | TransferError]:
            indexes = places[name]
            transfer = self._transfer(name)
            if isinstance(transfer, str):
                return [TransferError(uris[index], transfer) for index in indexes]
            return work(transfer, [items[index] for index in indexes])

        each = map if len(places) == 1 else self._pool.map
        results: list[Any] = [None] * len(uris)
        for indexes, made in zip(places.values(), each(run, places), strict=True):
            for index, result in zip(indexes, made, strict=True):
                results[index] = result
        return results

    def _meet(self, names: Iterable[str]) -> None:
        """Asks again what storages there are, if some of these are unknown."""
        if self._reload is None or all(name in self._storages for name in names):
            return
        with self._reloading:
            # Another thread may have asked while this one waited.
            if all(name in self._storages for name in names):
                return
            now = time.monotonic()
            if self._reloaded_at is not None and now < self._reloaded_at + RELOAD_SECONDS:
                return
            self._reloaded_at = now
            self.update(self._reload() or ())

    def _transfer(self, name: str) -> BlockTransfer | str:
        """The transfer of a storage, or the reason why there is none."""
        with self._lock:
            transfer = self._transfers.get(name)
            if transfer is not None:
                return transfer
            storage = self._storages.get(name)
            if storage is None:
                return f"no storage {name!r} is known here"
            kind = _TYPE_BY_SCHEME.get(storage.type)
            maker = None if kind is None else MAKERS.get(kind)
            if maker is None:
                return f"this client has no transfer for storages of type {storage.type}"
            made = self._transfers[name] = maker(storage, self._options)
            return made


def _host(uri: str) -> str:
    """The name of the storage; what is no URI names none."""
    return uri.partition("://")[2].partition("/")[0].partition("?")[0]


def _only(results: Sequence[Result | TransferError]) -> Result:
    (result,) = results
    if isinstance(result, TransferError):
        raise result
    return result
