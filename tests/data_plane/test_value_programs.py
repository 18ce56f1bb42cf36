"""Random programs of puts, gets and removals over two processes, against a dictionary."""

from __future__ import annotations

import random

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.uris import parse_uri
from tests.support.data_plane import VALUE_BYTES, DataPlane, data_plane, found, group, value_instance

ID = "values"
KEYS = [f"key/{number}" for number in range(60)]
QUOTA = 30 * VALUE_BYTES


class Model:
    """State by key: ("writing" | "serving" | "deleting", session, bytes, URI); and failed writes."""

    def __init__(self) -> None:
        self.states: dict[str, tuple[str, str, int, str]] = {}
        self.failed_bytes = 0

    @property
    def used(self) -> int:
        return sum(state[2] for state in self.states.values()) + self.failed_bytes

    def uri(self, key: str) -> str:
        state = self.states.get(key)
        return state[3] if state is not None and state[0] == "serving" else ""


class Program:
    def __init__(self, planes: list[DataPlane], seed: int) -> None:
        self.planes = planes
        self.random = random.Random(seed)
        self.model = Model()
        self.open: dict[str, list[str]] = {}
        self.seen: set[str] = set()

    @property
    def service(self):
        return self.random.choice(self.planes).service

    def some(self) -> list[str]:
        return self.random.choices(KEYS, k=self.random.choice([1, 2, 7, 20]))

    async def start(self) -> None:
        keys = self.some()
        sizes = [self.random.randint(1, VALUE_BYTES) for _ in keys] if self.random.random() < 0.5 else []
        missing = {}
        for at, key in enumerate(keys):
            if key not in self.model.states:
                missing.setdefault(key, sizes[at] if sizes else VALUE_BYTES)
        work = self.service.put_start(ID, keys, sizes, 30)
        if missing and self.model.used + sum(missing.values()) > QUOTA:
            with pytest.raises(DomainError) as caught:
                await work
            assert caught.value.code is Code.CAPACITY
            return
        started = await work
        first = {key: at for at, key in reversed(list(enumerate(keys)))}
        assert started.mask == [key not in missing or first[key] != at for at, key in enumerate(keys)]
        places = [found(wire).uri for wire in started.locations]
        assert [parse_uri(place).size for place in places] == list(missing.values())
        assert not self.seen & set(places), "no URI is issued twice"
        self.seen |= set(places)
        for key, place in zip(missing, places, strict=True):
            self.model.states[key] = ("writing", started.session_id, missing[key], place)
        self.open[started.session_id] = list(zip(missing, places, strict=True))

    async def finish(self) -> None:
        if not self.open:
            return
        session_id = self.random.choice(list(self.open))
        places = self.open[session_id]
        flags = [self.random.random() < 0.7 for _ in places]
        form = self.random.choice(["mask", "uris", "all", "bad"])
        match form:
            case "bad":
                bad = [places[0][1], "file://nfs_01/x?size=1"] if places else ["file://nfs_01/x?size=1"]
                with pytest.raises(DomainError):
                    await self.service.put_finish_listed(ID, session_id, bad)
                return
            case "uris" if any(flags):
                listed = [uri for (_, uri), flag in zip(places, flags, strict=True) if flag]
                self.random.shuffle(listed)
                await self.service.put_finish_listed(ID, session_id, listed)
            case "mask":
                await self.service.put_finish(ID, session_id, flags)
            case _:
                flags = [True] * len(places)
                await self.service.put_finish_listed(ID, session_id, [])
        del self.open[session_id]
        for (key, place), is_written in zip(places, flags, strict=True):
            state = self.model.states.get(key)
            if state is None or state[:2] != ("writing", session_id):
                continue
            if is_written:
                self.model.states[key] = ("serving", "", state[2], place)
            else:
                del self.model.states[key]
                self.model.failed_bytes += state[2]

    async def remove(self) -> None:
        keys = self.some()
        await self.service.remove_values(ID, keys)
        for key in keys:
            if key in self.model.states:
                self.model.states[key] = ("deleting", *self.model.states[key][1:])

    async def trim(self) -> None:
        if self.random.random() < 0.2:
            await self.service.trim_values(ID, 1, 0, 0)
            self.model.states = {k: ("deleting", *state[1:]) for k, state in self.model.states.items()}

    async def free(self) -> None:
        self.planes[0].make_due()
        await self.planes[0].duties()
        self.model.states = {k: s for k, s in self.model.states.items() if s[0] != "deleting"}
        self.model.failed_bytes = 0

    async def get(self) -> None:
        keys = self.some()
        wires, hits = await self.service.get_values(ID, keys)
        assert [found(wire).uri for wire in wires] == [self.model.uri(key) for key in keys]
        assert hits == [bool(self.model.uri(key)) for key in keys]

    async def step(self) -> None:
        actions = [self.start] * 4 + [self.finish] * 5 + [self.get] * 3 + [self.remove, self.trim, self.free]
        await self.random.choice(actions)()

    async def check(self) -> None:
        count = await self.planes[0].recount()
        assert not count.has_drift
        assert (count.used, count.reserved) == (self.model.used, 0)


async def run(planes: list[DataPlane], seed: int, steps: int, shards: int) -> None:
    planes[0].publish(2, group(quota=Quota(QUOTA)), value_instance(shards=shards))
    for plane in planes:
        await plane.mirror.refresh()
    program = Program(planes, seed)
    for number in range(steps):
        await program.step()
        if number % 10 == 9:
            await program.check()
    await program.check()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [1, 3])
async def test_random_programs(plane, empty_valkey, seed, spread):
    async with data_plane(empty_valkey.url, plane.client) as other:
        await run([plane, other], seed, 200, spread)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_long_random_program(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client) as other:
        await run([plane, other], 4711, 5_000, 3)
