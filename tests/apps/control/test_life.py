"""What the database remembers of the index decides whether one that comes back is complete."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import redis

from apps.common.models import IndexStamp
from apps.common.selectors import index_stamps
from apps.common.services import index_stamps_store
from apps.control.leader import Leader
from apps.control.life import LifeKeeper
from kvcm_platform.index import functions, heartbeat, keyspace, registry
from kvcm_platform.index.connecting import connection_to
from tests.support.eventually import eventually

DAY_MS = 86_400_000


@contextmanager
def keeping(index: redis.Redis) -> Iterator[None]:
    """A keeper of the leading control process at work."""
    leader = Leader(lambda: index, "node", 10_000)
    assert leader.step()
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(2) as executor:
        task = loop.create_task(LifeKeeper(leader, executor).run())

        def work() -> None:
            with pytest.raises(asyncio.CancelledError):
                loop.run_until_complete(task)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(task.cancel)
            thread.join()
            leader.release()
    loop.close()


def new_life(index: redis.Redis, url: str) -> None:
    """The server is another one, with stamps; a process that remembers nothing meets it first."""
    index.set(keyspace.ALIVE, DAY_MS)
    index.hset(keyspace.GENERATION, mapping={"number": 5, "server": "former/life"})

    async def meet() -> None:
        connection = connection_to(url)
        await connection.connect()
        await connection.close()

    asyncio.run(meet())
    assert index.hget(keyspace.GENERATION, "state") == b"?"


@pytest.mark.django_db(transaction=True)
def test_stamps_are_kept_and_never_go_back(index: redis.Redis) -> None:
    index_stamps_store(stamps={keyspace.ALIVE: 7, "{alive:3}:alive": 9})
    index_stamps_store(stamps={keyspace.ALIVE: 5, "{alive:3}:alive": 11})
    assert index_stamps() == {keyspace.ALIVE: 7, "{alive:3}:alive": 11}
    with keeping(index):
        eventually(lambda: index_stamps()[keyspace.ALIVE] > DAY_MS)
    assert IndexStamp.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("remembered_ms", "state"),
    [(DAY_MS, b"ok"), (DAY_MS + 2000, b"ok"), (DAY_MS + 60_000, b"doubt"), (None, b"ok")],
)
def test_the_database_decides(index: redis.Redis, settings, remembered_ms: int | None, state: bytes) -> None:
    """Without any stamp in the database nobody ever knew more than the index itself."""
    if remembered_ms:
        index_stamps_store(stamps={keyspace.ALIVE: remembered_ms})
    new_life(index, settings.KVCM_REDIS_URL)
    with keeping(index):
        eventually(lambda: index.hget(keyspace.GENERATION, "state") == state)
        eventually(lambda: int(index.get(keyspace.ALIVE)) > DAY_MS)
    number = index.hget(keyspace.GENERATION, "number")
    assert index.hget(keyspace.GENERATION, "doubt") == (number if state == b"doubt" else None)


def test_functions_that_nobody_uses_are_removed(index: redis.Redis) -> None:
    registry.ensure_functions(index)
    heartbeat.forget_functions(index)  # what other tests left on this server
    for version in ("0123456789ab", "ba9876543210"):
        index.function_load(
            f"#!lua name=kvcm_{version}\nredis.register_function('f_{version}', function() return 1 end)"
        )
    index.function_load("#!lua name=another\nredis.register_function('another', function() return 1 end)")
    beat = heartbeat.command("metadata", "old", {"functions": "0123456789ab"})
    index.execute_command(*beat)
    assert heartbeat.forget_functions(index) == 1
    left = str(index.function_list())
    assert "0123456789ab" in left
    assert "another" in left
    assert functions.library() in left
    assert "ba9876543210" not in left
    index.hdel(keyspace.PROCESSES, beat[2])
    assert heartbeat.forget_functions(index) == 1
    index.function_delete("another")
