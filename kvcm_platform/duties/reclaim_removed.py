"""Ends what is left of groups that were removed: their requests, runs, refusals and troubles."""

from __future__ import annotations

import structlog

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport, RunState, Stop
from kvcm_platform.duties.reclaim_hold import reclaim_hold
from kvcm_platform.duties.reclaim_settling import is_reachable, settle
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import waking
from kvcm_platform.index.reclaim_book import Book, ReclaimBook, group_of_last
from kvcm_platform.index.waking import Refusals

log = structlog.get_logger(__name__)


async def end_removed(session: IndexSession, book: ReclaimBook, known: Book, refused: Refusals) -> int:
    """How many runs are over now; the next round tries the others again. Raises redis.RedisError."""
    groups, settled = session.registry.groups, 0
    for request in known.requests.values():
        if request.group not in groups:
            await _refuse(session, book, request)
    numbers = {group.number for group in groups.values()}
    for run in [*known.open.values(), *known.settling.values()]:
        if run.group_number in numbers:
            continue
        try:
            async with reclaim_hold(session.index, run.group_number) as hold:
                if hold is not None:
                    settled += await _end(session, book, run)
        except Exception:
            log.exception("a run of a removed group cannot be ended", run=run.report.id)
    for name, wanted in refused.items():
        if name not in groups:
            await waking.refusals_forget(session.index.connection, name, wanted)
    for name, trouble in known.troubles.items():
        if name not in groups:
            await book.note_trouble(name, trouble, None)
    await book.forget_last([name for name in known.last if group_of_last(name) not in numbers])
    return settled


async def _refuse(session: IndexSession, book: ReclaimBook, request: ReclaimRequest) -> None:
    detail = f"group {request.group} does not exist"
    report = RunReport.not_begun(request, RunState.FAILED, Stop.GONE, session.index.now_ms(), detail=detail)
    await book.report(report)
    await book.refuse(request)


async def _end(session: IndexSession, book: ReclaimBook, run: OpenRun) -> bool:
    if run.report.state is RunState.CHOOSING:
        run.report.choose_no_more(Stop.GONE, session.index.now_ms())
        await book.settle(run)
        await book.report(run.report)
    return is_reachable(session, run) and await settle(session, session.index, book, run)
