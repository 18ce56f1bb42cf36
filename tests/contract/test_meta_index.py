"""One behaviour suite over every backend of MetaIndex, after llm-d's index_test.go: a dict is the model."""

from __future__ import annotations

import asyncio
import random
import struct
import sys
from collections import Counter

import pytest

from kvcm_platform.core.errors import Code
from kvcm_platform.index.meta_index.batches import batches, mixed
from kvcm_platform.index.meta_index.interface import START, Delete, Outcome, Put, Skip, Update
from tests.support.meta_index import BACKENDS, HIGH, LOW, counter, everything, refused

# Single operations


async def test_what_is_put_is_there_until_it_is_deleted(index):
    assert await index.get([1, 2]) == [None, None]
    assert await index.put([(1, b"a"), (2, b"")]) == [Outcome.CREATED, Outcome.CREATED]
    assert await index.get([2, 1, 3]) == [b"", b"a", None]
    assert await index.put([(1, b"b"), (3, b"c")]) == [Outcome.REPLACED, Outcome.CREATED]
    assert await index.get([1, 2, 3]) == [b"b", b"", b"c"]
    assert await index.delete([1, 4]) == [Outcome.DELETED, Outcome.MISSING]
    assert await index.get([1, 2, 3]) == [None, b"", b"c"]


async def test_update_changes_only_what_exists(index):
    await index.put([(1, b"a")])
    assert await index.update([(1, b"b"), (2, b"b")]) == [Outcome.REPLACED, Outcome.MISSING]
    assert await index.get([1, 2]) == [b"b", None]


@pytest.mark.parametrize("key", [LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH])
async def test_every_signed_64_bit_key_is_a_key(index, key):
    record = bytes(range(256))
    await index.put([(key, record)])
    assert await index.get([key]) == [record]
    assert await everything(index) == [(key, record)]
    assert await index.random_sample(5) == [key]
    report = await index.read_modify_write([key], lambda _, old: Update(old + b"!"))
    assert (report.updated, await index.get([key])) == (1, [record + b"!"])
    assert await index.delete([key]) == [Outcome.DELETED]
    assert await index.count() == 0


async def test_empty_calls(index):
    assert await index.get([]) == []
    assert await index.put([]) == await index.update([]) == await index.delete([]) == []
    assert await index.read_modify_write([], counter) is not None
    assert await everything(index) == []
    assert await index.random_sample(3) == await index.random_sample(0) == []


async def test_duplicates_are_dealt_with_in_order(index):
    assert await index.put([(1, b"a"), (2, b"x"), (1, b"b")]) == [
        Outcome.CREATED,
        Outcome.CREATED,
        Outcome.REPLACED,
    ]
    assert await index.get([1, 1, 2]) == [b"b", b"b", b"x"]
    assert await index.delete([1, 1]) == [Outcome.DELETED, Outcome.MISSING]
    assert await index.update([(1, b"c"), (2, b"y"), (2, b"z")]) == [
        Outcome.MISSING,
        Outcome.REPLACED,
        Outcome.REPLACED,
    ]
    assert await index.get([1, 2]) == [None, b"z"]
    report = await index.read_modify_write([7, 2, 7, 7], lambda key, old: Put((old or b"") + b"%d" % key))
    assert (report.put, await index.get([7, 2])) == (4, [b"777", b"z2"])


async def test_a_modifier_may_do_anything(index):
    await index.put([(key, b"%d" % key) for key in (1, 2, 3, 4)])
    seen: dict[int, bytes | None] = {}

    def decide(key: int, record: bytes | None):
        seen[key] = record
        return {
            1: Put(b"one"),
            2: Update(b"two"),
            3: Delete(),
            4: Skip(),
            5: Put(b"five"),
            6: Update(b"never"),
            7: Delete(),
            8: Skip(),
        }[key]

    report = await index.read_modify_write(range(1, 9), decide)
    assert seen == {1: b"1", 2: b"2", 3: b"3", 4: b"4", 5: None, 6: None, 7: None, 8: None}
    counts = (report.put, report.updated, report.deleted, report.skipped, report.missing)
    assert counts == (2, 1, 1, 2, 2)
    assert await index.get(range(1, 9)) == [b"one", b"two", None, b"4", b"five", None, None, None]


async def test_a_modifier_that_raises_changes_nothing_of_its_batch(bench):
    index = await bench.open(mutex_shard_num=1)
    await index.put([(1, b"a"), (2, b"b")])

    def decide(key: int, _: bytes | None):
        if key == 2:
            raise ZeroDivisionError
        return Delete()

    with pytest.raises(ZeroDivisionError):
        await index.read_modify_write([1, 2], decide)
    assert await index.get([1, 2]) == [b"a", b"b"]
    await index.put([(1, b"c")])  # no lock is held


@pytest.mark.parametrize(("locks", "batch_size"), [(1, 0), (16, 16), (64, 0), (4, 100_000)])
async def test_big_batches(bench, locks, batch_size):
    index = await bench.open(mutex_shard_num=locks, batch_key_size=batch_size)
    keys = [key * 7919 - 2**40 for key in range(5000)]
    assert set(await index.put([(key, b"%d" % key) for key in keys])) == {Outcome.CREATED}
    assert await index.get(keys) == [b"%d" % key for key in keys]
    report = await index.read_modify_write(keys, lambda key, _: Delete() if key % 2 else Skip())
    assert report.deleted + report.skipped == 5000
    left = [key for key in keys if not key % 2]
    assert sorted(key for key, _ in await everything(index)) == sorted(left)
    assert await index.count() == len(left)
    assert set(await index.delete(left)) == {Outcome.DELETED}
    usage = await index.usage()
    assert (usage.records, usage.bytes) == (0, 0)


async def test_random_programs_agree_with_a_dict(index):
    choice, model = random.Random(5), {}
    for step in range(400):
        keys = [choice.randrange(60) - 30 for _ in range(choice.randrange(1, 20))]
        record = b"x" * choice.randrange(40)
        match choice.randrange(5):
            case 0:
                expected = []
                for key in keys:
                    expected.append(Outcome.REPLACED if key in model else Outcome.CREATED)
                    model[key] = record
                assert await index.put([(key, record) for key in keys]) == expected
            case 1:
                expected = [Outcome.REPLACED if key in model else Outcome.MISSING for key in keys]
                model.update(dict.fromkeys(set(keys) & model.keys(), record))
                assert await index.update([(key, record) for key in keys]) == expected
            case 2:
                expected = [
                    Outcome.MISSING if model.pop(key, None) is None else Outcome.DELETED for key in keys
                ]
                assert await index.delete(keys) == expected
            case 3:
                decisions = [Put(record), Update(record), Delete(), Skip()]

                def decide(key, old, step=step, decisions=decisions):
                    return decisions[(key + step + len(old or b"")) % 4]

                for key in keys:
                    change = decide(key, model.get(key))
                    if isinstance(change, Put) or (isinstance(change, Update) and key in model):
                        model[key] = change.record
                    elif isinstance(change, Delete):
                        model.pop(key, None)
                await index.read_modify_write(keys, decide)
        assert await index.get(keys) == [model.get(key) for key in keys]
        usage = await index.usage()
        assert usage.records == len(model)
        assert usage.bytes == sum(8 + len(held) for held in model.values())
    assert dict(await everything(index, 7)) == model


# Concurrency


async def test_tasks_that_increment_the_same_counters_lose_nothing(index):
    keys = list(range(40))

    async def work(seed: int) -> None:
        mine = random.Random(seed)
        for _ in range(25):
            await index.read_modify_write(mine.sample(keys, 10), counter)
            await index.get(mine.sample(keys, 5))

    await asyncio.gather(*(work(seed) for seed in range(8)))
    values = [struct.unpack(">Q", record)[0] for record in await index.get(keys) if record is not None]
    assert sum(values) == 8 * 25 * 10


@pytest.mark.parametrize("bench", ["redis", "redis, 3 shards"], indirect=True)
async def test_processes_that_increment_the_same_counters_lose_nothing(bench, index, empty_valkey):
    uri = BACKENDS[bench.backend][1]
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.meta_index_worker", empty_valkey.url, uri, str(seed)
        )
        for seed in range(3)
    ]
    for worker in workers:
        assert await worker.wait() == 0
    values = [struct.unpack(">Q", record)[0] for record in await index.get(range(12)) if record is not None]
    assert sum(values) == 3 * 300 * 6


@pytest.mark.parametrize("bench", ["redis", "redis, 3 shards"], indirect=True)
async def test_two_connections_meet_in_compare_and_set(bench):
    """A change between reading and writing is seen: the modifier is asked again."""
    index, other = await bench.open(), await bench.open()
    await index.put([(1, b"a")])
    asked: list[bytes | None] = []
    store = index._store
    read = store.read

    async def overtaken(keys):
        found = await read(keys)
        if not asked:
            await other.put([(1, b"b")])
        return found

    store.read = overtaken

    def decide(_: int, record: bytes | None):
        asked.append(record)
        return Update(record + b"!")

    report = await index.read_modify_write([1], decide)
    assert (asked, report.updated, await index.get([1])) == ([b"a", b"b"], 1, [b"b!"])


# Scan and sample


async def test_a_scan_under_change_sees_every_key_that_stays(index):
    stable = [key * 31 for key in range(2000)]
    await index.put([(key, b"stays") for key in stable])
    choice, others, seen = random.Random(3), list(range(1, 3000, 31)), set()
    cursor = START
    for number in range(100_000):
        page = await index.scan(cursor, 50)
        seen |= {key for key, record in page.items if record == b"stays"}
        cursor = page.cursor
        if cursor == START:
            break
        part = choice.sample(others, 20)
        if number % 2:
            await index.delete(part)
        else:
            await index.put([(key, b"comes and goes") for key in part])
    assert seen == set(stable)


async def test_a_cursor_of_another_kind_is_refused(index):
    await index.put([(1, b"a")])
    for cursor in (b"x", b"-1", b"99999:0", b"1:2:3"):
        await refused(index.scan(cursor, 10), Code.INVALID_ARGUMENT)
    await refused(index.scan(START, 0), Code.INVALID_ARGUMENT)


async def test_every_key_is_as_likely_in_a_sample(index):
    """Chi-square over 300 keys, 6,000 draws: the bound is passed by chance once in a billion runs."""
    keys = [mixed(number) - 2**63 for number in range(300)]
    await index.put([(key, b"r") for key in keys])
    drawn: Counter[int] = Counter()
    for _ in range(200):
        sample = await index.random_sample(30)
        assert len(sample) == len(set(sample)) == 30
        drawn.update(sample)
    assert set(drawn) <= set(keys)
    expected = 200 * 30 / 300
    statistic = sum((drawn[key] - expected) ** 2 / expected for key in keys)
    assert statistic < 470  # 299 degrees of freedom
    assert sorted(await index.random_sample(1000)) == sorted(keys)


# Batches


def test_batches_take_whole_shards_until_they_are_big_enough():
    choice = random.Random(1)
    keys = [choice.randrange(LOW, HIGH) for _ in range(1000)] * 2
    for locks, size in ((16, 0), (16, 100), (64, 1), (8, 10_000)):
        made = batches(keys, locks, size)
        shards = [shard for batch in made for shard in batch.shards]
        assert shards == sorted(set(shards))
        assert sorted(at for batch in made for at in batch.positions) == list(range(2000))
        for batch in made:
            assert {mixed(keys[at]) & locks - 1 for at in batch.positions} == set(batch.shards)
            last = sum(mixed(keys[at]) & locks - 1 == batch.shards[-1] for at in batch.positions)
            assert len(batch.positions) - last < size or len(batch.shards) == 1
        assert all(len(batch.positions) >= size for batch in made[:-1])
        if size == 0:
            assert len(made) == locks
