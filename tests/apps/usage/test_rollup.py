"""Minutes and hours are what their seconds say, however often and in whatever order they are made."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from apps.usage.choices import KEPT_SECONDS, Kind, Resolution
from apps.usage.models import Position, Sample, SamplingGap, SecondsChunk, Series
from apps.usage.packing import buckets_of, pack
from apps.usage.selectors.points import levels_before, points_between
from apps.usage.services import history_prune, roll_up
from kvcm_platform.core.points import Amounts, Levels, Point

pytestmark = pytest.mark.django_db

HOUR = 1_800_000_000
"""A whole one."""


def series(name: str = "chat") -> Series:
    return Series.objects.create(kind=Kind.GROUP.value, name=name)


def write(own: Series, points: list[Point]) -> None:
    """As the sampler does: chunks of a few seconds, none over the end of a minute."""
    chunks: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        chunks[point.at // 5].append(point)
    SecondsChunk.objects.bulk_create(
        SecondsChunk(series=own, at=part[0].at, points=pack(part, part[0].at)) for part in chunks.values()
    )


def done_until(at: int) -> None:
    Position.objects.update_or_create(pk=1, defaults={"seconds_done": at, "facts_id": "0-0"})


def made_up(seed: int, seconds: int) -> list[Point]:
    """Traffic in some seconds, levels that wander."""
    chance = random.Random(seed)
    used, found = 500, []
    for at in range(HOUR, HOUR + seconds):
        if chance.random() < 0.3:
            used = max(0, used + chance.randint(-50, 60))
            requests = chance.randint(0, 9)
            read = [0] * chance.randint(0, 14) + [requests] if requests else []
            levels = Levels(used_bytes=used, serving_bytes=used)
            found.append(Point(at, levels, used, Amounts(requests, read_us=read)))
    return found


@pytest.mark.parametrize("resolution", [Resolution.MINUTE, Resolution.HOUR])
def test_against_sums_by_hand(resolution: Resolution) -> None:
    own, other = series("a"), series("b")
    points = made_up(1, 3 * 3600)
    write(own, points)
    write(other, made_up(2, 3 * 3600))
    done_until(HOUR + 3 * 3600 + 5)
    roll_up()
    requests: dict[int, int] = defaultdict(int)
    calls: dict[int, list[int]] = defaultdict(lambda: [0] * 15)
    last: dict[int, int] = {}
    peak: dict[int, int] = defaultdict(int)
    for point in points:
        at = point.at - point.at % resolution
        requests[at] += point.amounts.requests
        for bucket, count in enumerate(point.amounts.read_us):
            calls[at][bucket] += count
        last[at] = point.levels.used_bytes
        peak[at] = max(peak[at], point.levels.used_bytes)
    rows = list(Sample.objects.filter(series=own, resolution=resolution).order_by("at"))
    assert [row.at for row in rows] == sorted(last)
    assert {row.at: row.requests for row in rows} == requests
    assert {row.at: row.used_bytes for row in rows} == {row.at: row.serving_bytes for row in rows} == last
    assert {row.at: row.peak_bytes for row in rows} == peak
    for row in rows:
        own_calls = buckets_of(row.read_us)
        assert own_calls + [0] * (15 - len(own_calls)) == calls[row.at]


def test_repeated_and_cut_in_pieces_it_says_the_same() -> None:
    own = series()
    points = made_up(3, 2 * 3600)
    write(own, points)
    for until in range(HOUR, HOUR + 7300, 417):
        done_until(until)
        roll_up()
        roll_up()
    done_until(HOUR + 7300)
    roll_up()
    in_pieces = list(Sample.objects.order_by("resolution", "at").values())
    Position.objects.update(minutes_done=0, hours_done=0)
    roll_up()
    assert Sample.objects.count() == len(in_pieces)
    assert list(Sample.objects.order_by("resolution", "at").values()) == in_pieces


def test_a_minute_that_can_get_more_points_waits() -> None:
    own = series()
    write(own, [Point(HOUR, Levels(), 0, Amounts(1)), Point(HOUR + 65, Levels(), 0, Amounts(1))])
    done_until(HOUR + 119)
    roll_up()
    assert list(Sample.objects.values_list("at", flat=True)) == [HOUR]
    assert Position.objects.get().minutes_done == HOUR + 60


def test_points_stay_as_long_as_they_should() -> None:
    own = series()
    now = HOUR + 100 * 24 * 3600
    kept = {
        Resolution.SECOND: [now - 900, now],
        Resolution.MINUTE: [now - 86_400, now],
        Resolution.HOUR: [now - 90 * 86_400, now],
    }
    for at in (now - 901, *kept[Resolution.SECOND]):
        SecondsChunk.objects.create(series=own, at=at, points=pack([Point(at, Levels(), 0)], at))
    for resolution in (Resolution.MINUTE, Resolution.HOUR):
        for at in (now - KEPT_SECONDS[resolution] - 1, *kept[resolution]):
            _sample(own, resolution, at)
    SamplingGap.objects.create(begin_at=1, end_at=2)
    Position.objects.create(pk=1, seconds_done=now, facts_id="", minutes_done=now, hours_done=now)
    assert history_prune(now=now) == 4
    assert list(SecondsChunk.objects.order_by("at").values_list("at", flat=True)) == kept[Resolution.SECOND]
    for resolution in (Resolution.MINUTE, Resolution.HOUR):
        rows = Sample.objects.filter(resolution=resolution).order_by("at")
        assert list(rows.values_list("at", flat=True)) == kept[resolution]


def test_seconds_that_no_rollup_took_stay() -> None:
    own = series()
    write(own, [Point(HOUR, Levels(), 0, Amounts(1))])
    now = HOUR + 3000
    done_until(now)
    assert history_prune(now=now) == 0
    roll_up()
    assert history_prune(now=now) == 1
    assert Sample.objects.get().requests == 1


def test_series_go_with_their_last_points() -> None:
    gone, stays, lives = series("gone"), series("stays"), series("lives")
    now = HOUR + 200 * 24 * 3600
    Series.objects.filter(pk=gone.pk).update(ended_at=now - 91 * 86_400)
    Series.objects.filter(pk=stays.pk).update(ended_at=now - 89 * 86_400)
    _sample(lives, Resolution.HOUR, now)
    done_until(now)
    history_prune(now=now)
    assert set(Series.objects.values_list("name", flat=True)) == {"stays", "lives"}


def test_more_than_one_batch_goes_in_batches(monkeypatch) -> None:
    monkeypatch.setattr("apps.usage.services.rollup._DROPPED_AT_ONCE", 10)
    own = series()
    now = HOUR + 10 * 24 * 3600
    for at in range(HOUR, HOUR + 60 * 95, 60):
        _sample(own, Resolution.MINUTE, at)
    Position.objects.create(pk=1, seconds_done=now, facts_id="", minutes_done=now, hours_done=now)
    assert history_prune(now=now) == 95


@pytest.mark.parametrize("step", [1, 5, 60, 300, 3600])
def test_a_span_is_put_together_of_what_there_is(step: int) -> None:
    """Hours, then minutes, then seconds: the sums are those of all points, wherever rollups have come to."""
    own = series()
    points = made_up(4, 3 * 3600 - 7)
    write(own, points)
    done_until(HOUR + 3 * 3600 - 400)
    roll_up()
    done_until(HOUR + 3 * 3600 - 7)
    assert Position.objects.get().hours_done == HOUR + 2 * 3600
    found = points_between([own.pk], HOUR, HOUR + 3 * 3600, step)[own.pk]
    expected: dict[int, int] = defaultdict(int)
    for point in points:
        expected[point.at - point.at % step] += point.amounts.requests
    assert {point.at: point.amounts.requests for point in found} == expected
    assert found[-1].levels == points[-1].levels


def test_levels_before_a_moment() -> None:
    own = series()
    points = made_up(5, 2 * 3600)
    write(own, points)
    done_until(HOUR + 2 * 3600)
    roll_up()

    def truth(moment: int) -> Levels | None:
        before = [point.levels for point in points if point.at < moment]
        return before[-1] if before else None

    def asked(moment: int) -> Levels | None:
        return levels_before(Series.objects.all(), moment).get(own.pk)

    for moment in range(HOUR, HOUR + 7200, 61):
        assert asked(moment) == truth(moment)
    SecondsChunk.objects.all().delete()
    for moment in range(HOUR, HOUR + 7200, 60):
        assert asked(moment) == truth(moment)
    # Within a minute nothing finer is known any more: what it ends with may be of later.
    for moment in range(HOUR + 61, HOUR + 7200, 61):
        assert asked(moment) == truth(moment - moment % 60)
    Sample.objects.filter(resolution=Resolution.MINUTE).delete()
    for moment in (HOUR, HOUR + 3600, HOUR + 7200):
        assert asked(moment) == truth(moment)
    Sample.objects.all().delete()
    assert asked(HOUR + 90 * 86_400) == points[-1].levels


def _sample(own: Series, resolution: Resolution, at: int) -> None:
    names = ("used", "peak", "writing", "serving", "pending", "reserved")
    Sample.objects.create(
        series=own, resolution=resolution, at=at, blocks=0, **{f"{name}_bytes": 0 for name in names}
    )
