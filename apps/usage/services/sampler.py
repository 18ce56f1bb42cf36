"""Samples the platform each second and writes the points every few seconds.

The control process that leads does it. What was done comes from the stream of facts, and how far that is
written is changed with the points in one transaction: after a crash the next leader goes on where the
points end, and of two that believe to lead one writes. What was held while nobody looked is unknown, and
noted as a gap.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import redis
import structlog
from django.db import DatabaseError, transaction

from apps.usage.choices import PLATFORM, Kind, Resolution, SeriesKey
from apps.usage.models import Position, SamplingGap, SecondsChunk, Series
from apps.usage.packing import pack
from apps.usage.selectors.levels import levels_of_all
from apps.usage.selectors.points import levels_before
from apps.usage.services.traffic import Second, Traffic
from kvcm_platform.core.levels import GroupReading
from kvcm_platform.core.points import Amounts, Levels, Point, total
from kvcm_platform.core.registry import Registry
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.group_readings import read_groups

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 5
SETTLE_SECONDS = 1
"""Facts of a second may come so much later: flushes of processes wait, clocks differ."""
GAP_SECONDS = 15
"""Without a look for longer than this what was held is unknown."""
WAITING_SECONDS_AT_MOST = 120
"""Kept while the database is away; past that the stream of facts remembers what was done."""
_ROWS_A_STATEMENT = 500


class Overtaken(Exception):
    """Another process wrote points since this one began: it leads, not we."""


@dataclass(slots=True)
class _State:
    position: Position
    traffic: Traffic
    series: dict[SeriesKey, int]
    last: dict[SeriesKey, Levels]
    """As they were read last."""
    written: dict[SeriesKey, Levels]
    """As of the newest point that is written."""
    looked_at: int
    """When they were read last, in seconds."""
    readings: dict[str, GroupReading] = field(default_factory=dict)
    seconds: dict[int, Second] = field(default_factory=lambda: defaultdict(Second))
    changes: dict[int, dict[SeriesKey, Levels]] = field(default_factory=lambda: defaultdict(dict))
    ended: set[SeriesKey] = field(default_factory=set)
    gone: dict[SeriesKey, int] = field(default_factory=dict)
    """When objects were found gone whose series are not ended yet."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    is_new: bool = True
    """Until the first look, of which every level is a point."""


class Sampler:
    """`step` is called about each second by the process that leads; `stop` when it leads no more.

    `client` is `figures_client()`. Raises redis.RedisError and django.db.DatabaseError where these are
    away; the next step goes on.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._state: _State | None = None
        self._registry = Registry()

    def stop(self) -> None:
        """Forget what was not written: whoever leads next reads the facts again."""
        self._state = None

    def step(self, client: redis.Redis) -> int:
        """Look, and write what is complete. Returns how many points were written."""
        now = int(self._clock())
        if self._state is None:
            self._state = _load(now)
        state = self._state
        self._read_registry(client)
        state.traffic.follow(
            *(client, self._registry, state.last.get, state.seconds),
            first=state.position.seconds_done,
            last=max(now, state.position.seconds_done),
        )
        self._look(client, state, now)
        until = now - SETTLE_SECONDS
        if until - state.position.seconds_done < FLUSH_SECONDS:
            return 0
        try:
            return _flush(state, until)
        except Overtaken:
            log.warning("another process writes the usage history; what this one gathered is left to it")
            self._state = None
            return 0
        except DatabaseError:
            if until - state.position.seconds_done > WAITING_SECONDS_AT_MOST:
                self._state = None
            raise

    def _read_registry(self, client: redis.Redis) -> None:
        version = index_registry.read_version(client)
        if version is not None and version != self._registry.version:
            self._registry = index_registry.read(client)

    def _look(self, client: redis.Redis, state: _State, now: int) -> None:
        """Note what changed since the last look."""
        if now <= state.looked_at or now < state.position.seconds_done:
            return
        registry = self._registry
        found = read_groups(client, registry.groups)
        # What a group held whose own Redis is away counts on, for its storages above all.
        known = {name: one for name, one in state.readings.items() if name in registry.groups}
        state.readings = {**known, **found}
        gone = [key for key in state.last if key.kind is not Kind.PLATFORM and _is_gone(key, registry)]
        levels = {key: one for key, one in state.last.items() if key not in gone}
        levels |= levels_of_all(registry, state.readings)
        levels[PLATFORM] = total(one for key, one in levels.items() if key.kind is Kind.GROUP)
        changed = {key: one for key, one in levels.items() if state.is_new or state.last.get(key) != one}
        for key in gone:
            changed[key] = Levels()
            state.gone[key] = now
        if changed:
            state.changes[now] = changed
        if now - state.looked_at > GAP_SECONDS:
            state.gaps.append((state.looked_at + 1, now))
        state.last, state.looked_at, state.is_new = levels, now, False


def _is_gone(key: SeriesKey, registry: Registry) -> bool:
    if key.kind is Kind.GROUP:
        return key.name not in registry.groups
    if key.kind is Kind.STORAGE:
        return key.name not in registry.storages
    instance = registry.instances.get(key.name)
    return instance is None or instance.group != key.group


def _load(now: int) -> _State:
    """Where the points end. A platform without any begins with what happens from now on."""
    position, is_new = Position.objects.get_or_create(
        pk=1, defaults={"seconds_done": now, "facts_id": f"{now * 1000 - 1}-0"}
    )
    rows = list(Series.objects.all())
    live = [row for row in rows if row.ended_at is None]
    before = levels_before(Series.objects.filter(ended_at__isnull=True), position.seconds_done)
    levels = {row.key: before.get(row.pk, Levels()) for row in live}
    return _State(
        position=position,
        traffic=Traffic(position.facts_id),
        series={row.key: row.pk for row in rows},
        ended={row.key for row in rows if row.ended_at is not None},
        last=levels,
        written=dict(levels),
        looked_at=now - 1 if is_new else min(now - 1, position.seconds_done - 1),
    )


def _flush(state: _State, until: int) -> int:
    """Write the points of all seconds before `until`, and that they are written. Raises Overtaken."""
    points, levels = _points(state, until)
    facts_id = next(
        (state.seconds[at].last_id for at in sorted(state.seconds, reverse=True) if at < until),
        state.position.facts_id,
    )
    turn = state.position.turn + 1
    with transaction.atomic():
        mine = Position.objects.filter(pk=state.position.pk, turn=state.position.turn)
        if not mine.update(seconds_done=until, facts_id=facts_id, turn=turn):
            raise Overtaken
        series = _series_of(state, points)
        chunks = [
            SecondsChunk(series_id=series[key], at=part[0].at, points=pack(part, part[0].at))
            for key, own in points.items()
            for part in _chunks(own)
        ]
        SecondsChunk.objects.bulk_create(chunks, batch_size=_ROWS_A_STATEMENT)
        ended, back = _turns(state, until)
        for at in {state.gone[key] for key in ended}:
            _end([series[key] for key in ended if state.gone[key] == at], at)
        _end([series[key] for key in back], None)
        SamplingGap.objects.bulk_create(SamplingGap(begin_at=begin, end_at=end) for begin, end in state.gaps)
    state.series, state.written, state.gaps = series, levels, []
    state.ended = (state.ended | ended) - back
    state.gone = {key: at for key, at in state.gone.items() if key not in ended}
    for kept in (state.seconds, state.changes):
        for at in [at for at in kept if at < until]:
            del kept[at]
    state.position.seconds_done, state.position.facts_id, state.position.turn = until, facts_id, turn
    return sum(map(len, points.values()))


def _points(state: _State, until: int) -> tuple[dict[SeriesKey, list[Point]], dict[SeriesKey, Levels]]:
    """The points of the seconds before `until`, and the levels after them."""
    points: dict[SeriesKey, list[Point]] = defaultdict(list)
    levels = dict(state.written)
    for at in sorted(state.seconds.keys() | state.changes.keys()):
        if at >= until:
            break
        changed = state.changes.get(at, {})
        levels |= changed
        amounts = state.seconds[at].spread() if at in state.seconds else {}
        for key in changed.keys() | amounts.keys():
            own = levels.get(key, Levels())
            points[key].append(Point(at, own, own.used_bytes, amounts.get(key, Amounts())))
    return points, levels


def _chunks(points: list[Point]) -> Iterator[list[Point]]:
    """Those of each minute, so that a chunk is of one."""
    for _, part in groupby(points, key=lambda point: point.at // Resolution.MINUTE):
        yield list(part)


def _series_of(state: _State, keys: Iterable[SeriesKey]) -> dict[SeriesKey, int]:
    """Row keys of series, made where there are none."""
    missing = [key for key in keys if key not in state.series]
    if not missing:
        return state.series
    Series.objects.bulk_create(
        [Series(kind=key.kind.value, name=key.name, group_name=key.group) for key in missing],
        batch_size=_ROWS_A_STATEMENT,
        ignore_conflicts=True,
    )
    found = dict(state.series)
    for at in range(0, len(missing), _ROWS_A_STATEMENT):
        names = [key.name for key in missing[at : at + _ROWS_A_STATEMENT]]
        rows = Series.objects.filter(name__in=names).only("kind", "name", "group_name")
        found.update((row.key, row.pk) for row in rows)
    return found


def _end(series: list[int], at: int | None) -> None:
    """Their objects are gone since then; None = they are there."""
    for first in range(0, len(series), _ROWS_A_STATEMENT):
        Series.objects.filter(pk__in=series[first : first + _ROWS_A_STATEMENT]).update(ended_at=at)


def _turns(state: _State, until: int) -> tuple[set[SeriesKey], set[SeriesKey]]:
    """Whose object went before `until`, and whose came back."""
    back = {key for key in state.ended if key in state.last}
    ended = {key for key, at in state.gone.items() if at < until and key not in state.last}
    return ended, back
