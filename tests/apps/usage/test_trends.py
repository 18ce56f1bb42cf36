"""Trends of groups and storages, out of what was sampled."""

from __future__ import annotations

import pytest

from apps.usage.choices import Kind
from apps.usage.models import Position, SamplingGap, SecondsChunk, Series
from apps.usage.packing import pack
from apps.usage.services.growth import growth_refresh
from kvcm_platform.core.growth import State, growth_from_dict
from kvcm_platform.core.points import Amounts, Levels, Point

HOUR = 1_800_000_000


def write(name: str, sizes: dict[int, int], kind: Kind = Kind.GROUP, written: int = 0) -> Series:
    own = Series.objects.create(kind=kind.value, name=name)
    SecondsChunk.objects.bulk_create(
        SecondsChunk(
            series=own,
            at=at,
            points=pack(
                [
                    Point(
                        at, Levels(used_bytes=size, serving_bytes=size), size, Amounts(written_bytes=written)
                    )
                ],
                at,
            ),
        )
        for at, size in sizes.items()
    )
    return own


@pytest.mark.django_db
def test_trends_of_what_was_sampled() -> None:
    """Half an hour, a point each 10 s; nothing changed before the first of `still`."""
    times = range(HOUR, HOUR + 1800, 10)
    write("grows", {at: 5 * (at - HOUR) for at in times}, written=100)
    write("still", {HOUR: 700})
    write("nfs_a", {at: 7 * (at - HOUR) for at in times}, Kind.STORAGE)
    write("model-a", {at: at - HOUR for at in times}, Kind.INSTANCE)
    Position.objects.create(pk=1, seconds_done=HOUR + 1800, facts_id="")
    assert growth_refresh() == 3
    found = {row.name: growth_from_dict(row.growth) for row in Series.objects.exclude(name="model-a")}
    assert found["grows"].trend.state is State.GROWING
    assert found["grows"].trend.bytes_per_second == pytest.approx(5.0)
    assert found["grows"].trend.span_seconds == pytest.approx(1800, abs=60)
    turnover = found["grows"].turnover
    assert turnover is not None
    # 100 bytes each 10 s came, 5 a second stayed.
    assert turnover.written_bytes_per_second == pytest.approx(10.0, rel=0.02)
    assert turnover.left_bytes_per_second == pytest.approx(5.0, rel=0.05)
    assert found["still"].trend.state is State.STEADY
    assert found["nfs_a"].trend.bytes_per_second == pytest.approx(7.0)
    assert found["nfs_a"].turnover is None
    assert Series.objects.get(name="model-a").growth is None


@pytest.mark.django_db
def test_times_nobody_looked_are_left_out() -> None:
    """It stood at 0 before the gap and grew after it: with the gap as a level it would seem steady."""
    write("chat", {HOUR: 0, **{at: 50 * (at - HOUR - 600) for at in range(HOUR + 700, HOUR + 900, 5)}})
    SamplingGap.objects.create(begin_at=HOUR + 1, end_at=HOUR + 700)
    Position.objects.create(pk=1, seconds_done=HOUR + 900, facts_id="")
    growth_refresh()
    trend = growth_from_dict(Series.objects.get().growth).trend
    assert trend.state is State.GROWING
    assert trend.points == 14, "of the steps of 15 s those that end from 700 s on"
