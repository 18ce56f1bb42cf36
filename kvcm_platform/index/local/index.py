"""The block index of one process (`core.ports.BlockIndex`): the adapters of Redis over a LocalConnection.

Starts are refused while the store could not keep them; reads and Finishes go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import RegistrySource, WriteLimits, WritePlan
from kvcm_platform.core.registry import Registry, StorageEntry
from kvcm_platform.index import keyspace, registry
from kvcm_platform.index.redis_index import RedisIndex, guarded

from .connection import LocalConnection
from .home_pools import HomePools
from .residents import Residents


class LocalIndex(RedisIndex):
    """Needs no lease and no fence: its store is open in this process alone."""

    def __init__(self, connection: LocalConnection, source: RegistrySource, node_id: str) -> None:
        super().__init__(connection)
        self.server = connection.server
        self.residents = Residents(connection, node_id)
        self.pools = HomePools(self, connection.remote, node_id)
        self._registry = source
        self._limits_of: Registry | None = None

    @guarded
    async def write(
        self, plan: WritePlan, storage: StorageEntry | None, serving: Serving, limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        with self._stored():
            await self.residents.admit(plan.instance, self._registry.current.version)
        return await super().write(plan, storage, serving, limits)

    async def reserve(self, plan: WritePlan, candidates: Sequence[StorageEntry]) -> StorageEntry:
        with self._stored():
            self.follow_limits()
        return await super().reserve(plan, candidates)

    @contextmanager
    def _stored(self) -> Iterator[None]:
        """Raises DomainError(NOT_READY) when the store cannot be written or would not keep it."""
        if trouble := self.server.keys.store.trouble:
            raise DomainError(Code.NOT_READY, trouble)
        try:
            yield
        except OSError as error:
            raise DomainError(Code.NOT_READY, f"the index's store cannot be used: {error}") from error

    def follow_limits(self) -> None:
        """Brings the groups' limits to where the registry is; in Redis the publication does it."""
        current = self._registry.current
        if current is self._limits_of:
            return
        for group in current.groups.values():
            name = keyspace.group_limits(keyspace.group(group.number))
            # The registry read last is right, whatever its number.
            self.server.execute("HDEL", name, "version")
            self.server.execute(*registry.limits_command(group, current.version))
        self._limits_of = current
