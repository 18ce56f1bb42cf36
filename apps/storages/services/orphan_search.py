"""Carries searches for orphans out: the search in a thread of its own, its progress on record meanwhile."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import redis
import structlog
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.storages.choices import OrphanRunState
from apps.storages.models import UNDER_WAY, OrphanRun
from apps.storages.services.opening import owner_of
from apps.storages.services.orphans import LOST_SECONDS
from kvcm_platform.core.errors import DomainError
from kvcm_platform.duties.orphan_order import OrphanFigures, OrphanOrder
from kvcm_platform.duties.orphans import CannotTell, OrphanSearch, Stopped
from kvcm_platform.duties.session import index_session
from kvcm_platform.index.references import Unreadable

log = structlog.get_logger(__name__)

BEAT_SECONDS = 2.0
MOST_SECONDS = 7200.0
"""A search that takes longer ends; what it found and did by then stays."""
GRACE_SECONDS = 300.0
"""How long it may then take to stop. One that does not is left to its thread, and its worker goes on."""
_EXPECTED = (CannotTell, Unreadable, OSError, redis.RedisError, DomainError)


@dataclass(slots=True)
class _Search:
    """The search and its thread. `outcome` is set at its end."""

    redis_url: str
    name: str
    owner: str
    is_dry: bool
    min_age_seconds: float
    figures: OrphanFigures = field(default_factory=OrphanFigures)
    stop: threading.Event = field(default_factory=threading.Event)
    outcome: tuple[OrphanRunState, str] | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
            self.outcome = OrphanRunState.DONE, ""
        except Stopped:
            self.outcome = OrphanRunState.CANCELLED, ""
        except _EXPECTED as error:
            self.outcome = OrphanRunState.FAILED, str(error) or type(error).__name__
        except Exception as error:
            log.exception("the search for orphans failed", storage=self.name)
            self.outcome = OrphanRunState.FAILED, f"{type(error).__name__}; the log says more"

    async def _run(self) -> None:
        async with index_session(self.redis_url) as session:
            storage = session.registry.storages.get(self.name)
            if storage is None:
                raise CannotTell(f"storage {self.name} is not published yet")
            order = OrphanOrder(storage, self.owner, self.is_dry, self.min_age_seconds)
            await OrphanSearch(session, order, self.stop.is_set, self.figures).run()


def orphan_run_carry_out(
    *, run_id: int, redis_url: str, beat_seconds: float = BEAT_SECONDS, most_seconds: float = MOST_SECONDS
) -> OrphanRun | None:
    """Carry a run out, unless it is over, somebody else does, or another storage is being searched.

    Returns the run at its end; None where it was not this call's business (any more).
    """
    holder = secrets.token_hex(16)
    run = _take(run_id, holder)
    if run is None:
        return None
    name = run.storage.name
    search = _Search(redis_url, name, owner_of(name), run.is_dry, run.min_age_seconds)
    thread = threading.Thread(target=search.run, name=f"orphans of {name}", daemon=True)
    thread.start()
    deadline = time.monotonic() + most_seconds
    is_late = is_held = False
    while True:
        thread.join(beat_seconds)
        late_by = time.monotonic() - deadline
        if not thread.is_alive() or late_by > GRACE_SECONDS:
            break
        is_late = late_by > 0
        is_held = _beat(run, holder, search.figures)
        if is_late or not is_held:
            search.stop.set()
    state, reason = search.outcome or (OrphanRunState.FAILED, "it does not end: a call on the storage hangs")
    if is_late and state is OrphanRunState.CANCELLED:
        state, reason = OrphanRunState.FAILED, f"it took longer than {most_seconds:g} s"
    return _end(run, holder, search.figures, state, reason)


@transaction.atomic
def _take(run_id: int, holder: str) -> OrphanRun | None:
    now = timezone.now()
    run = OrphanRun.objects.select_for_update().select_related("storage").filter(pk=run_id).first()
    fresh = now - timedelta(seconds=LOST_SECONDS)
    # One seen in the future was seen before the clock went back: it is asked again like one that is lost.
    running = OrphanRun.objects.filter(
        state=OrphanRunState.RUNNING.value,
        seen_at__gte=fresh,
        seen_at__lte=now + timedelta(seconds=LOST_SECONDS),
    )
    if run is None or run.state not in UNDER_WAY:
        return None
    if run.is_cancel_asked and (run.seen_at is None or run.seen_at < fresh):
        # Whoever had it died before it stopped; it must not delete for another while.
        OrphanRun.objects.filter(pk=run.pk).update(state=OrphanRunState.CANCELLED.value, ended_at=now)
        return None
    # One at a time: each keeps a thread of a worker for as long as it takes.
    if running.exists():
        return None
    OrphanRun.objects.filter(pk=run.pk).update(
        state=OrphanRunState.RUNNING.value,
        holder=holder,
        seen_at=now,
        started_at=run.started_at or now,
        tries=F("tries") + 1,
    )
    return run


def _beat(run: OrphanRun, holder: str, figures: OrphanFigures) -> bool:
    """Put the progress on record; False when the run is to stop or is another one's by now."""
    held = OrphanRun.objects.filter(pk=run.pk, holder=holder, state=OrphanRunState.RUNNING.value)
    held.update(seen_at=timezone.now(), figures=_counts(figures))
    return held.filter(is_cancel_asked=False).exists()


def _end(
    run: OrphanRun, holder: str, figures: OrphanFigures, state: OrphanRunState, reason: str
) -> OrphanRun | None:
    held = OrphanRun.objects.filter(pk=run.pk, holder=holder, state=OrphanRunState.RUNNING.value)
    ended = held.update(
        state=state.value,
        reason=reason,
        ended_at=timezone.now(),
        figures=_counts(figures),
        samples=[asdict(sample) for sample in figures.samples],
    )
    return OrphanRun.objects.select_related("storage").get(pk=run.pk) if ended else None


def _counts(figures: OrphanFigures) -> dict[str, Any]:
    names = [name for name in OrphanFigures.__dataclass_fields__ if name != "samples"]
    return {**{name: getattr(figures, name) for name in names}, "reasons": dict(figures.reasons)}
