"""Random programs of engines, removals and copies over several processes that die in the middle.

The naive model knows nothing of copies: whatever they do, and wherever they die, a block that was
acknowledged and not removed is served with the right bytes, one that was removed is not, and in the
end neither the usage nor the disks hold anything else.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.types import Retention
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.duties.copies import CopyRound
from kvcm_platform.duties.lease import copies_lease
from kvcm_platform.index import codec, copying, keyspace
from tests.support.copies import Tiers, go_on, tiers

pytestmark = pytest.mark.asyncio
PROCESSES = 3
STEPS = 60
KEYS = range(1, 121)


class Died(Exception):
    """Stands for kill -9: nothing after this line runs."""


class Program:
    def __init__(self, processes: list[Tiers], seed: int, connect: Callable[[], Awaitable[Tiers]]) -> None:
        self.processes = processes
        self.connect = connect
        self.random = random.Random(seed)
        self.sure: set[int] = set()
        self.maybe: set[int] = set()
        self.copied = 0

    def some_keys(self) -> list[int]:
        begin = self.random.choice(KEYS)
        return list(range(begin, min(begin + self.random.choice([1, 7, 40]), KEYS.stop)))

    async def die_in(self, action: Callable[[Tiers], Awaitable[None]]) -> None:
        """Runs an action in a process that dies at one of its first changing calls."""
        number = self.random.randrange(PROCESSES)
        one = self.processes[number]
        left, is_after = self.random.randint(1, 8), self.random.random() < 0.5
        original, made = one.index.connection.call, 0

        async def dying(*command, **options):
            nonlocal made
            if made >= left:
                raise Died
            if command[0] != "FCALL":
                return await original(*command, **options)
            made += 1
            if made < left:
                return await original(*command, **options)
            if is_after:
                await original(*command, **options)
            raise Died

        one.index.connection.call = dying
        try:
            await action(one)
        except Died:
            pass
        except BaseExceptionGroup as group:
            assert group.subgroup(Died)
        if made >= left:
            self.processes[number] = await self.connect()
        else:
            one.index.connection.call = original

    async def write(self, one: Tiers) -> None:
        keys = self.some_keys()
        try:
            await one.write(keys)
        except Died:
            self.maybe |= set(keys) - self.sure
            raise
        # Of a block that somebody is writing the protocol says that it is there.
        self.maybe |= set(keys) - self.sure
        found = await one.uris(keys)
        self.sure |= set(found)
        self.maybe -= set(found)

    async def remove(self, one: Tiers) -> None:
        keys = self.some_keys()
        self.maybe |= self.sure & set(keys)
        self.sure -= set(keys)
        await one.plane.service.remove_cache("model-a", Blocks(keys, ()), None)
        self.maybe -= set(keys)

    async def trim(self, one: Tiers) -> None:
        self.maybe |= self.sure
        self.sure.clear()
        await one.plane.service.trim_cache("model-a", 3, 0, 0)

    async def copy(self, one: Tiers) -> None:
        """A round of a request, either way, moving or not."""
        names = self.random.choice([("fast", "slow"), ("slow", "fast")])
        wish = one.request(
            str(self.random.random()),
            source=names[0],
            target=names[1],
            retention=self.random.choice(list(Retention)),
            most_bytes=self.random.choice([0, 20 * 1024]),
        )
        await one.refresh()
        session = await one.session()
        async with copies_lease(session) as owner:
            try:
                if owner:
                    for _, tally in await CopyRound(session, owner, 20, go_on).run([wish]):
                        self.copied += tally.copied_blocks
            finally:
                session.index.fence, session.index.duty = 0, ""
        await one.index.pusher.flush()

    async def leave_a_copy_open(self, one: Tiers) -> None:
        """A copier that stops for good in the middle, or goes on after all that happened meanwhile."""
        blocks = await one.blocks(self.some_keys())
        if not blocks:
            return
        copy = await one.open_copy([block.key for block in blocks], is_move=self.random.random() < 0.5)
        if not copy.blocks:
            return
        await one.move_bytes(copy)
        for _ in range(self.random.randint(0, 2)):
            await self.random.choice([self.remove, self.trim, self.write, self.free])(one)
        if self.random.random() < 0.6:
            served = await copying.finish_copy(one.index, copy, [True] * len(copy.blocks))
            self.copied += sum(served)
            gone = {block.key for block, is_served in zip(copy.blocks, served, strict=True) if is_served}
            assert gone <= self.sure | self.maybe, "a removed block came back"

    async def free(self, one: Tiers) -> None:
        one.plane.make_due()
        await one.plane.duties()

    async def expire(self, one: Tiers) -> None:
        pass_time(one)
        await one.plane.duties()

    async def read(self, one: Tiers) -> None:
        found = set(await self.served(one))
        assert self.sure <= found, f"not served: {sorted(self.sure - found)}"
        assert found <= self.sure | self.maybe, "something removed is served"

    async def served(self, one: Tiers) -> list[int]:
        """Keys that are served, with the right bytes."""
        places = await one.uris(KEYS)
        pattern = one.pattern()["tp0"]
        contents = one.transfers().read_batch(list(places.values()))
        for key, content in zip(places, contents, strict=True):
            assert content == pattern.block(key), f"block {key}: {content}"
        return list(places)

    async def step(self) -> None:
        actions = [self.write] * 4 + [self.copy] * 4 + [self.leave_a_copy_open] * 2
        actions += [self.remove] * 2 + [self.free, self.trim, self.expire]
        action = self.random.choice(actions)
        if self.random.random() < 0.35:
            await self.die_in(action)
            self.processes[0].plane.client.delete(keyspace.COPIES_LEASE)
        else:
            await action(self.random.choice(self.processes))
        await self.read(self.random.choice(self.processes))

    async def settle(self) -> None:
        one = self.processes[0]
        for _ in range(2):
            await self.expire(one)
            await self.free(one)
        await self.read(one)
        await one.write(KEYS)
        self.sure = set(KEYS)
        await self.copy(one)
        await one.round(one.request("down"))
        await one.round(one.request("up", source="slow", target="fast"))
        for _ in range(3):
            pass_time(one)
            one.plane.make_due()
            await one.plane.duties()
        await self.read(one)
        assert set((await one.places(KEYS)).values()) == {"fast"}
        count = await one.plane.recount()
        assert (count.has_drift, count.reserved) == (False, 0)
        kept = {parse_uri(uri).path for _, uri in self.all_uris(one)}
        on_disk = {str(path) for name in ("fast", "slow") for path in one.files(name)}
        assert on_disk <= kept, "a file that no block has"

    def all_uris(self, one: Tiers) -> list[tuple[int, str]]:
        found = []
        for shard in range(one.instance.shards):
            base = keyspace.instance(one.instance.number, shard)
            for key, record in one.plane.client.hgetall(keyspace.blocks(base)).items():
                for location in codec.locations(record):
                    assert location.status == codec.SERVING
                    found += [(codec.unpack_keys(key)[0], uri) for _, uri in location.specs()]
        return found


def pass_time(one: Tiers) -> None:
    """Every deadline lies in the past."""
    client = one.plane.client
    for shard in range(one.instance.shards):
        base = keyspace.instance(one.instance.number, shard)
        for name, due, past in (
            (keyspace.sessions(base), keyspace.session_deadlines(base), 12),
            (keyspace.tickets(base), keyspace.ticket_deadlines(base), 6),
        ):
            for session in client.zrange(due, 0, -1):
                header = client.hget(name, session)
                if header is not None:
                    late = header[:1] + (1).to_bytes(6) * (past // 6) + header[1 + past :]
                    client.hset(name, session, late)
                client.zadd(due, {session: 1})
    name = keyspace.group_reservation_deadlines(keyspace.group(1))
    for member in client.zrange(name, 0, -1):
        client.zadd(name, {member: 1})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shards", [1, 3])
async def test_copies_and_deaths(empty_valkey, tmp_path, shards: int, seed: int) -> None:
    async with AsyncExitStack() as stack:
        client = empty_valkey.client()
        stack.callback(client.close)
        first = await stack.enter_async_context(tiers(empty_valkey.url, client, tmp_path, shards))

        async def connect() -> Tiers:
            again = tiers(empty_valkey.url, client, tmp_path, shards, is_first=False)
            return await stack.enter_async_context(again)

        others = [await connect() for _ in range(PROCESSES - 1)]
        program = Program([first, *others], seed, connect)
        for _ in range(STEPS):
            await program.step()
        await program.settle()


async def test_a_session_that_is_swept_leaves_the_source_served(empty_valkey, tmp_path) -> None:
    client = empty_valkey.client()
    async with tiers(empty_valkey.url, client, tmp_path, 1) as one:
        await one.write(range(1, 41))
        copy = await one.open_copy(range(1, 41))
        await one.move_bytes(copy)
        pass_time(one)
        await one.plane.duties()
        with pytest.raises(DomainError):
            await copying.finish_copy(one.index, copy, [True] * 40)
        assert await one.read(range(1, 41)) == {"fast": 40}
        await one.settle()
        assert one.files("slow") == []
        assert not (await one.plane.recount()).has_drift
    client.close()
