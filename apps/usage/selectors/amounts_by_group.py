"""What groups did and held in a time, as savings are worked out of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db.models import Q

from apps.usage.choices import Kind, Resolution
from apps.usage.models import Sample, Series
from apps.usage.selectors.points import gaps_between, levels_before, points_between, position
from kvcm_platform.core.points import Levels, Point
from kvcm_platform.core.traffic_amounts import TrafficAmounts, least_token_positions

_STEP = 60


def hours_done() -> int | None:
    """Before when no hour gets further points (unix seconds); None before there is a history."""
    known = position()
    return None if known is None or not known.hours_done else known.hours_done


def points_done() -> int | None:
    """Before when every point is written (unix seconds); None before there is a history."""
    known = position()
    return None if known is None else known.seconds_done


def first_hour() -> int | None:
    """The oldest hour of which there are points."""
    hours = Sample.objects.filter(resolution=Resolution.HOUR)
    return hours.order_by("at").values_list("at", flat=True).first()


def group_amounts(begin: int, end: int) -> dict[str, TrafficAmounts]:
    """By group, of `begin <= at < end` (whole minutes); groups of which nothing is known are left out.

    Held bytes are taken minute by minute where minutes are still there, else hour by hour, and not in
    times in which nobody looked. The positions of hit tokens are the least that they can be, by instance
    and step.
    """
    known = position()
    if known is None or begin >= end:
        return {}
    alive = Series.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=begin))
    groups = {row.pk: row for row in alive.filter(kind=Kind.GROUP.value)}
    instances = dict(alive.filter(kind=Kind.INSTANCE.value).values_list("pk", "group_name"))
    ids = [*groups, *instances]
    minutes = Sample.objects.filter(resolution=Resolution.MINUTE, at__lt=begin + _STEP)
    is_fine = end > known.hours_done or minutes.exists()
    step = _STEP if is_fine else int(Resolution.HOUR)
    points = points_between(ids, begin, end, step)
    before = levels_before(Series.objects.filter(pk__in=list(groups)), begin)
    gaps = gaps_between(begin, end)
    done: dict[str, TrafficAmounts] = {}
    for pk, row in groups.items():
        until = min(end, known.seconds_done, row.ended_at or end)
        held = _held(before.get(pk), points.get(pk, ()), range(begin, until, step), gaps)
        if held.known_seconds or pk in points:
            done[row.name] = held
    for name, more in _asked(instances, points).items():
        done[name] = done.get(name, TrafficAmounts()) + more
    return done


def _held(
    levels: Levels | None, points: Sequence[Point], times: range, gaps: Sequence[tuple[int, int]]
) -> TrafficAmounts:
    by_time = {point.at: point.levels for point in points}
    byte_seconds = known_seconds = 0.0
    for at in times:
        had, levels = levels, by_time.get(at, levels)
        if levels is None or any(first < at + times.step and at < last for first, last in gaps):
            continue
        # A point tells what was held at the end of its step.
        mean = ((had or levels).used_bytes + levels.used_bytes) / 2
        seconds = min(times.step, times.stop - at)
        byte_seconds += mean * seconds
        known_seconds += seconds
    return TrafficAmounts(byte_seconds=byte_seconds, known_seconds=known_seconds)


def _asked(instances: Mapping[int, str], points: Mapping[int, Sequence[Point]]) -> dict[str, TrafficAmounts]:
    found: dict[str, TrafficAmounts] = defaultdict(TrafficAmounts)
    for pk, group in instances.items():
        for point in points.get(pk, ()):
            done = point.amounts
            if done.requests or done.requested_tokens:
                found[group] = found[group] + TrafficAmounts(
                    requests=done.requests,
                    requested_tokens=done.requested_tokens,
                    hit_tokens=done.hit_tokens,
                    hit_token_positions=least_token_positions(done.hit_tokens, done.requests),
                )
    return found
