"""The blocking twin of `placed.PlacedConnection` for processes with Django: redis-py over several servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
import structlog

from . import keyspace
from .address import BadAddress
from .placed import Places

log = structlog.get_logger(__name__)
REMEMBER_SECONDS = 1.0
_NOTHING: dict[str, Callable[[], Any]] = {
    "hgetall": dict,
    "hget": lambda: None,
    "zrangebyscore": list,
    "zcard": int,
}
"""What a pipelined command gives while a server is away: its figures are missing, not the page."""


class PlacedClient:
    """Commands about shards and groups go to the server that holds them, all others to the platform's own."""

    def __init__(
        self, main: redis.Redis, own_url: str, client_of: Callable[[str], redis.Redis], *, is_lenient: bool
    ) -> None:
        """`is_lenient`: a pipeline gives nothing, not an error, for what a group's own server should say."""
        self.main = main
        self.is_lenient = is_lenient
        self._own_url = own_url
        self._client_of = client_of
        self._known: tuple[float, Places] = (0.0, Places())

    def places(self) -> Places:
        """As they were at most REMEMBER_SECONDS ago. Raises redis.RedisError."""
        read_at, places = self._known
        if not read_at or time.monotonic() - read_at > REMEMBER_SECONDS:
            places = Places.of(self.main.hgetall(keyspace.PLACED), self._own_url)
            self._known = (time.monotonic(), places)
        return places

    def of(self, key: str) -> redis.Redis:
        """Raises redis.RedisError."""
        return self.at(self.places().url_of(key))

    def at(self, url: str) -> redis.Redis:
        """The client of a group's own Redis; "" = the platform's. Raises redis.RedisError."""
        try:
            return self._client_of(url) if url else self.main
        except BadAddress as error:
            raise redis.ConnectionError(f"a group's own Redis cannot be used: {error}") from error

    def eval(self, script: str, numkeys: int, *args: Any) -> Any:
        return self.of(args[0]).eval(script, numkeys, *args)

    def pipeline(self, transaction: bool = False) -> Any:
        if not self.places().urls:
            return self.main.pipeline(transaction=transaction)
        return PlacedPipeline(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.main, name)


class PlacedPipeline:
    """Collects commands and sends each server's together; the replies come in the order of the commands."""

    def __init__(self, client: PlacedClient) -> None:
        self._client = client
        self._commands: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., PlacedPipeline]:
        def collect(*args: Any, **options: Any) -> PlacedPipeline:
            self._commands.append((name, args, options))
            return self

        return collect

    def execute(self) -> list[Any]:
        places = self._client.places()
        by_url: dict[str, list[int]] = {}
        for number, (_, args, _) in enumerate(self._commands):
            by_url.setdefault(places.url_of(args[0]), []).append(number)
        replies: list[Any] = [None] * len(self._commands)
        for url, numbers in by_url.items():
            for number, reply in zip(numbers, self._ask(url, numbers), strict=True):
                replies[number] = reply
        self._commands.clear()
        return replies

    def _ask(self, url: str, numbers: list[int]) -> list[Any]:
        try:
            pipeline = self._client.at(url).pipeline(transaction=False)
            for number in numbers:
                name, args, options = self._commands[number]
                getattr(pipeline, name)(*args, **options)
            return list(pipeline.execute())
        except redis.RedisError as error:
            if not url or not self._client.is_lenient:
                raise
            log.warning("a group's own Redis does not answer", reason=str(error))
            return [_NOTHING[self._commands[number][0]]() for number in numbers]
