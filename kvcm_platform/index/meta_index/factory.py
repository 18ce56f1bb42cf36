"""Opens a MetaIndex as a group's `MetaIndexerSettings` describe it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.registry import MetaIndexerSettings
from kvcm_platform.core.validation.groups import check_meta_indexer
from kvcm_platform.index.connection import Commands
from kvcm_platform.index.embedded.memory import MemoryStore
from kvcm_platform.index.embedded.rocks import RocksStore

from .cache import CachedMetaIndex
from .embedded_store import EmbeddedStore
from .indexer import LockedMetaIndex
from .interface import MetaIndex
from .redis_store import RedisStore
from .store import RecordStore

PERSIST_INTERVAL_MS = 1000


async def open_meta_index(
    settings: MetaIndexerSettings,
    name: str,
    *,
    commands: Commands | None = None,
    is_only_writer: bool = False,
) -> MetaIndex:
    """The index called `name`. Close it before another one is opened on the same file.

    `storage_type` and `storage_uri` choose the backend:
    - `redis`: over `commands`; of the URI the parameter `shards` counts (hash tags that the records
      are spread over, default 1, fixed by the first who opens the index).
    - `local`: in this process; `file:///path` names the snapshot file, `persist_interval_ms` how often
      it is written (1000); without a URI nothing is kept.
    - `rocksdb`: `file:///path` names the folder.

    The search cache of `cache_policy` is put in front of `local` and `rocksdb`, and of `redis` where
    the caller says that nobody else writes (`is_only_writer`).

    Raises DomainError: INVALID_ARGUMENT for settings that cannot be used, IN_USE for a folder that
    another process has open, and what the store says; redis.RedisError.
    """
    settings = _checked(settings)
    store = await _open_store(settings, name, commands)
    index: MetaIndex = LockedMetaIndex(store, settings.mutex_shard_num, settings.batch_key_size)
    is_alone = settings.storage_type != "redis" or is_only_writer
    if settings.cache_policy.capacity_mb and is_alone:
        try:
            return CachedMetaIndex(index, settings.cache_policy)
        except DomainError:
            await index.close()
            raise
    return index


def _checked(settings: MetaIndexerSettings) -> MetaIndexerSettings:
    """What holds for a group's settings, and that every lock may have a key."""
    settings = check_meta_indexer(settings)
    locks, most = settings.mutex_shard_num, settings.max_key_count
    if locks > most:
        raise invalid("meta_indexer.mutex_shard_num", f"{locks} is more than max_key_count {most}")
    return settings


async def _open_store(settings: MetaIndexerSettings, name: str, commands: Commands | None) -> RecordStore:
    parameters = dict(parse_qsl(urlsplit(settings.storage_uri).query))
    match settings.storage_type:
        case "redis":
            if commands is None:
                raise DomainError(Code.NOT_READY, f"index {name}: there is no connection to Redis")
            shards = _number(parameters, "shards", 1)
            return await RedisStore.open(commands, name, shards, settings.max_key_count)
        case "local":
            interval = _number(parameters, "persist_interval_ms", PERSIST_INTERVAL_MS)
            if interval < 1:
                raise invalid("meta_indexer.storage_uri", f"persist_interval_ms: {interval} is not positive")
            memory = await MemoryStore(_path(settings), interval / 1000).open()
            return EmbeddedStore(memory, settings.max_key_count)
        case _:  # rocksdb: no other is left by check_meta_indexer
            folder = _path(settings)
            if folder is None:
                raise invalid("meta_indexer.storage_uri", "a rocksdb index needs file:///path of its folder")
            return EmbeddedStore(RocksStore(folder), settings.max_key_count)


def _path(settings: MetaIndexerSettings) -> Path | None:
    if not settings.storage_uri:
        return None
    uri = urlsplit(settings.storage_uri)
    if uri.scheme != "file" or uri.netloc or not uri.path.startswith("/"):
        raise invalid(
            "meta_indexer.storage_uri", f"{settings.storage_uri[:256]!r} is not of the form file:///path"
        )
    return Path(unquote(uri.path))


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise invalid("meta_indexer.storage_uri", f"{name}: {text[:32]!r} is not a number")
    return int(text)
