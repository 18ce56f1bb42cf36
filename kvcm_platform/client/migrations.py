"""Clients of migrations between storages; the connection needs an operator's token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kvcm_platform.pb.kvcm_v1_pb2_grpc import MigrationsStub

from . import aio, blocking, migration_calls

_STUBS: Mapping[str, Callable[..., Any]] = {migration_calls.MIGRATIONS: MigrationsStub}


class MigrationClient(aio.Client):
    """Calls from an event loop."""

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]] = _STUBS

    migrate_cache = aio.client_method(migration_calls.migrate_cache)
    get_migration = aio.client_method(migration_calls.get_migration)
    cancel_migration = aio.client_method(migration_calls.cancel_migration)


class BlockingMigrationClient(blocking.BlockingClient):
    """Calls from any thread."""

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]] = _STUBS

    migrate_cache = blocking.client_method(migration_calls.migrate_cache)
    get_migration = blocking.client_method(migration_calls.get_migration)
    cancel_migration = blocking.client_method(migration_calls.cancel_migration)
