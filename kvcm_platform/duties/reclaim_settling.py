"""What becomes of a run's blocks after they were marked: its figures until the last one is dealt with."""

from __future__ import annotations

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import RunState, Stop
from kvcm_platform.core.registry import Registry
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import evicting
from kvcm_platform.index.reclaim_book import ReclaimBook
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.shards import ShardRef, shards_of


def is_reachable(session: IndexSession, run: OpenRun) -> bool:
    """Whether the accounts of all its instances are here: none is in another process's index."""
    return not any(number in session.away for number in run.numbers)


def _shards(session: IndexSession, run: OpenRun) -> list[ShardRef]:
    entries = {entry.number: entry for entry in session.instances}
    known = (number for number in entries if entries[number].group_number == run.group_number)
    return [shard for number in known for shard in shards_of(entries[number])]


async def account(session: IndexSession, index: RedisIndex, run: OpenRun) -> tuple[bool, int]:
    """Brings the run's figures up to date with the shards' books.

    Returns whether they changed, and how many blocks still wait for their deletion.

    The books are right where a process died between a mark and its report. Raises redis.RedisError.
    """
    report = run.report
    before = (report.chosen_blocks, report.freed_blocks, report.failed_blocks)
    by_instance: dict[int, list[ShardRef]] = {}
    for shard in _shards(session, run):
        by_instance.setdefault(shard.instance_number, []).append(shard)
    names = _names(session.registry)
    names.update((entry.number, entry.instance_id) for entry in session.leaving)
    chosen, freed, failed, waiting = [0, 0], [0, 0], [0, 0], 0
    for number in {*by_instance, *run.numbers}:
        if number not in by_instance:
            # The instance is gone, and with it everything that was pending.
            two = run.numbers[number]
            for amounts in (chosen, freed):
                amounts[0] += two[0]
                amounts[1] += two[1]
            continue
        found = (await evicting.accounts(index, by_instance[number], [run.id]))[run.id]
        if not found.marked_blocks and number not in run.numbers:
            continue
        run.numbers[number] = [found.marked_blocks, found.marked_bytes]
        if number in names:
            report.by_instance[names[number]] = [found.marked_blocks, found.marked_bytes]
        _add(chosen, found.marked_blocks, found.marked_bytes)
        _add(freed, found.freed_blocks, found.freed_bytes)
        _add(failed, found.failed_blocks, found.failed_bytes)
        waiting += found.waiting_blocks
    report.chosen_blocks, report.chosen_bytes = chosen
    report.freed_blocks, report.freed_bytes = freed
    report.failed_blocks, report.failed_bytes = failed
    return before != (report.chosen_blocks, report.freed_blocks, report.failed_blocks), waiting


def _add(amounts: list[int], blocks: int, size: int) -> None:
    amounts[0] += blocks
    amounts[1] += size


def _names(registry: Registry) -> dict[int, str]:
    return {entry.number: entry.instance_id for entry in registry.instances.values()}


async def settle(session: IndexSession, index: RedisIndex, book: ReclaimBook, run: OpenRun) -> bool:
    """True when the run is over: then it was told and forgotten. Raises redis.RedisError."""
    report = run.report
    if not run.has_ended:
        is_changed, waiting = await account(session, index, run)
        if waiting > 0:
            if is_changed:
                await book.settle(run)
                await book.report(report)
            return False
        report.state, report.ended_ms = end_state(Stop(report.stop)), index.now_ms()
        run.has_ended = True
        # In this order: one that dies in between tells the end again, none keeps it to itself.
        await book.report(report)
        await book.settle(run)
    await evicting.forget_accounts(index, _shards(session, run), [run.id])
    await book.forget(run)
    return True


def end_state(stop: Stop) -> RunState:
    match stop:
        case Stop.CANCELLED:
            return RunState.CANCELLED
        case Stop.ERRORS:
            return RunState.FAILED
    return RunState.DONE
