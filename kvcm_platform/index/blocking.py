"""redis-py clients of the index for processes with Django and for the supervisor: any kind of Redis URL.

The clients of all kinds take the same commands, with keys of one slot in each; what must go to
every server asks for `masters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import ConstantBackoff, NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from . import address
from .address import Address, Credentials

_FAILOVER = Retry(ConstantBackoff(0.02), 3)
_ASYNC_FAILOVER = AsyncRetry(ConstantBackoff(0.02), 3)
"""Attempts at a Cluster's node, between which the map of slots is read anew."""


class _Cluster(redis.RedisCluster):
    """A Cluster out of reach raises what a single server does: callers wait for it to come back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with _outage():
            super().__init__(*args, **kwargs)
        learn = self.nodes_manager.initialize

        def initialize(*args: Any, **kwargs: Any) -> None:
            with _outage():
                learn(*args, **kwargs)

        self.nodes_manager.initialize = initialize


class _AsyncCluster(redis.asyncio.RedisCluster):
    """The same for asyncio, where nothing is sent before the first command."""

    async def initialize(self, *args: Any, **kwargs: Any) -> Any:
        with _outage():
            return await super().initialize(*args, **kwargs)

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        with _outage():
            return await super().execute_command(*args, **kwargs)


@contextmanager
def _outage() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as error:  # no RedisError, unlike what it stands for
        raise redis.ConnectionError(str(error)) from error


def client(
    url: str, *, connect_seconds: float = 0.5, answer_seconds: float = 2.0, **options: Any
) -> redis.Redis:
    """A thread-safe client. Raises address.BadAddress, and redis.RedisError for a Cluster out of reach."""
    where = address.parse(url)
    options |= _waits(connect_seconds, answer_seconds) | _login(where.credentials)
    match where.kind:
        case "cluster":
            nodes = [ClusterNode(host, port) for host, port in where.hosts]
            return cast(
                redis.Redis, _Cluster(startup_nodes=nodes, **options | _tls(where) | {"retry": _FAILOVER})
            )
        case "sentinel":
            sentinels = Sentinel(where.hosts, sentinel_kwargs=_sentinel(where, connect_seconds))
            master = sentinels.master_for(where.master_name, db=where.database, **options, **_tls(where))
            return cast(redis.Redis, master)
    return redis.Redis(**_server(where), **options)


def async_client(
    url: str, *, connect_seconds: float = 2.0, answer_seconds: float = 2.0
) -> redis.asyncio.Redis:
    """The same for asyncio; needs no server to be there yet."""
    where = address.parse(url)
    options = _waits(connect_seconds, answer_seconds) | _login(where.credentials)
    match where.kind:
        case "cluster":
            nodes = [redis.asyncio.cluster.ClusterNode(host, port) for host, port in where.hosts]
            cluster = _AsyncCluster(startup_nodes=nodes, **options | _tls(where) | {"retry": _ASYNC_FAILOVER})
            return cast(redis.asyncio.Redis, cluster)
        case "sentinel":
            sentinels = AsyncSentinel(
                where.hosts,
                sentinel_kwargs=_sentinel(where, connect_seconds) | {"retry": AsyncRetry(NoBackoff(), 0)},
            )
            options |= {"retry": AsyncRetry(NoBackoff(), 0)}
            master = sentinels.master_for(where.master_name, db=where.database, **options, **_tls(where))
            return cast(redis.asyncio.Redis, master)
    return redis.asyncio.Redis(**_server(where), **options | {"retry": AsyncRetry(NoBackoff(), 0)})


def masters(any_client: redis.Redis) -> list[redis.Redis]:
    """A client for each master: the given one where there is no Cluster."""
    if not isinstance(any_client, redis.RedisCluster):
        return [any_client]
    return [any_client.get_redis_connection(node) for node in any_client.get_primaries()]


def _waits(connect_seconds: float, answer_seconds: float) -> dict[str, Any]:
    """Callers have their own ways to wait for a server: the client fails at once."""
    return {
        "socket_connect_timeout": connect_seconds,
        "socket_timeout": answer_seconds,
        "retry": Retry(NoBackoff(), 0),
    }


def _login(credentials: Credentials) -> dict[str, Any]:
    if not credentials.password:
        return {}
    return {"username": credentials.user, "password": credentials.password}


def _tls(where: Address) -> dict[str, Any]:
    if not where.is_tls:
        return {}
    return {"ssl": True, **({"ssl_ca_certs": where.ca_file} if where.ca_file else {})}


def _server(where: Address) -> dict[str, Any]:
    if where.path:
        return {"unix_socket_path": where.path, "db": where.database}
    host, port = where.hosts[0]
    return {"host": host, "port": port, "db": where.database, **_tls(where)}


def _sentinel(where: Address, seconds: float) -> dict[str, Any]:
    return {
        **_waits(seconds, seconds),
        **_login(where.sentinel_credentials),
        **_tls(where),
    }
