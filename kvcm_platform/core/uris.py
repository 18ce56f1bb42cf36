"""Data URIs: how they are built at Start and read back by clients and deleters (WIRE.md 3.8).

`<scheme>://<storage><path>?k=v&k=v`, parameters sorted by name, no percent-encoding. Names of
objects and files end in `.` + location id, so that no URI is ever issued twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xxhash

from .errors import Code, DomainError
from .registry import LocationSpecInfo, StorageEntry
from .types import URI_SCHEME, StorageType

FILE_TYPES = frozenset({StorageType.NFS, StorageType.HF3FS, StorageType.VCNS_HF3FS, StorageType.DUMMY})
_BY_ROOT_PATH = frozenset({StorageType.NFS, StorageType.DUMMY})
_SEED = 42


@dataclass(frozen=True, slots=True)
class DataUri:
    """A parsed URI. `size` is bytes; `slot` is blkid, 0 where a file holds one block."""

    scheme: str
    storage: str
    path: str
    size: int
    slot: int
    params: dict[str, str]

    @property
    def offset(self) -> int:
        """Byte offset of the block in its file."""
        return self.slot * self.size


def parse_uri(uri: str) -> DataUri:
    """Raises ValueError with the reason for anything that is not a data URI."""
    scheme, separator, rest = uri.partition("://")
    if not separator or not scheme:
        raise ValueError(f"not a data URI: {uri!r}")
    location, _, query = rest.partition("?")
    storage, slash, path = location.partition("/")
    params = dict(part.partition("=")[::2] for part in query.split("&") if part)
    try:
        size, slot = int(params.get("size", "0")), int(params.get("blkid", "0"))
    except ValueError as error:
        raise ValueError(f"size and blkid must be numbers: {uri!r}") from error
    if not storage or size < 0 or slot < 0:
        raise ValueError(f"not a data URI: {uri!r}")
    return DataUri(scheme, storage, slash + path, size, slot, params)


def object_name(uri: DataUri) -> str:
    """What all blocks in one stored object share: its file's path, its key, or its node and range."""
    if "range_id" in uri.params:
        return f"{uri.params.get('node_id', '')}:{uri.params['range_id']}"
    return uri.params.get("key", uri.path)


def key_hex(key: int) -> str:
    """A block key as the protocol writes it: unsigned, lower case, no padding."""
    return f"{key & 0xFFFFFFFFFFFFFFFF:x}"


def key_names(keys: Sequence[int]) -> list[str]:
    """Names of the objects of these blocks."""
    return [key_hex(key) for key in keys]


MARKER = ".kvcm-storage"
"""A file in the root of a storage on a directory. Without it the root is another: its mount is gone, say."""


def file_root(storage: StorageEntry) -> str:
    """The directory under which a file storage keeps its objects, with its trailing slash."""
    return file_root_of(storage.type, storage.spec)


def file_root_of(kind: StorageType, spec: Mapping[str, Any]) -> str:
    """The same by type and spec. KeyError where a member is missing."""
    if kind in _BY_ROOT_PATH:
        root = str(spec["root_path"])
    else:
        root = f"{str(spec['mountpoint']).rstrip('/')}/{str(spec['root_dir']).strip('/')}"
    return root if root.endswith("/") else root + "/"


def slots_per_file(storage: StorageEntry) -> int:
    return max(1, int(storage.spec.get("key_count_per_file") or 1))


def one_object_a_file(storage: StorageEntry) -> StorageEntry:
    """The storage as it is for objects that must be told apart by their file's name."""
    if slots_per_file(storage) == 1:
        return storage
    return replace(storage, spec={**storage.spec, "key_count_per_file": 1})


def build_uris(
    storage: StorageEntry,
    instance_id: str,
    specs: Sequence[LocationSpecInfo],
    object_names: Sequence[str],
    location_id: str,
) -> list[list[str]]:
    """URIs of newly placed blocks: for each spec, in their order, one URI per block.

    If all specs have one size, one allocation covers "spec 0: all keys, spec 1: all keys, …", so
    a slot file may span two specs; otherwise each spec is allocated by itself.
    """
    names = [[f"{instance_id}/{spec.name}/{text}" for text in object_names] for spec in specs]
    if storage.type is StorageType.MOONCAKE:
        return [
            [f"mooncake://{storage.name}/?key={name}.{location_id}&size={spec.size}" for name in row]
            for spec, row in zip(specs, names, strict=True)
        ]
    if storage.type in FILE_TYPES:
        if len({spec.size for spec in specs}) == 1:
            flat = [name for row in names for name in row]
            uris = _file_uris(storage, flat, specs[0].size, location_id)
            count = len(object_names)
            return [uris[i * count : (i + 1) * count] for i in range(len(specs))]
        return [
            _file_uris(storage, row, spec.size, location_id) for spec, row in zip(specs, names, strict=True)
        ]
    raise DomainError(Code.UNSUPPORTED, f"storage {storage.name}: placement on {storage.type} is not built")


def pool_uris(
    storage: StorageEntry,
    node_id: str,
    ranges: Iterator[tuple[int, int]],
    specs: Sequence[LocationSpecInfo],
    object_keys: Sequence[Sequence[str]],
) -> list[list[str]]:
    """The same on a memory pool: takes one (range id, offset) a URI.

    `object_keys` has a list for each spec: an object key for each block, or nothing where its place is
    all that it is known by.
    """
    media = f"media_type={int(storage.spec.get('media_type') or 0)}&node_id={node_id}&range_id="
    before = f"pace://{storage.name}/"
    columns: list[list[str]] = []
    for spec, keys in zip(specs, object_keys, strict=True):
        end = f"&size={spec.size}"
        columns.append(
            [
                f"{before}{offset}?{key and f'key={key}&'}{media}{number}{end}"
                for key, (number, offset) in zip(keys, ranges, strict=False)
            ]
        )
    return columns


def _file_uris(storage: StorageEntry, names: Sequence[str], size: int, location_id: str) -> list[str]:
    prefix = f"{URI_SCHEME[storage.type]}://{storage.name}{file_root(storage)}"
    per_file = slots_per_file(storage)
    if per_file == 1:
        return [f"{prefix}{name}.{location_id}?size={size}" for name in names]
    slots = [f"?blkid={slot}&size={size}" for slot in range(min(per_file, len(names)))]
    uris: list[str] = []
    for start in range(0, len(names), per_file):
        run = names[start : start + per_file]
        path = run[0]
        if len(run) > 1:
            path += "_" + xxhash.xxh64("|".join(run).encode(), seed=_SEED).hexdigest().lstrip("0")
        path = f"{prefix}{path}.{location_id}"
        uris.extend([path + slot for slot in slots[: len(run)]])
    return uris


@dataclass(frozen=True, slots=True)
class SlotPosition:
    """Where one block stood in its Start: block `index` of `count`, `per_file` slots a file."""

    index: int
    count: int
    per_file: int

    def slots_in_file(self, spec_index: int, spec_count: int, is_joint: bool) -> int:
        """How many slots the file of this block's spec was given.

        `is_joint` = all specs have one size and were allocated together.
        """
        if self.per_file <= 1:
            return 1
        at = spec_index * self.count + self.index if is_joint else self.index
        total = self.count * spec_count if is_joint else self.count
        return min(self.per_file, total - at // self.per_file * self.per_file)
