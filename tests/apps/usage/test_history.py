"""Times of charts, and what is shown at each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.choices import Kind, Resolution
from apps.usage.models import Position, SamplingGap, SecondsChunk, Series
from apps.usage.packing import pack
from apps.usage.selectors.history import POINTS_AT_MOST, history, span_of
from apps.usage.services import roll_up
from kvcm_platform.core.points import Amounts, Levels, Point

HOUR = 1_800_000_000
DAY = 86_400


@pytest.mark.parametrize(
    ("begin", "end", "step", "resolution"),
    [
        # 15 minutes: of seconds, in some 300 points.
        (-895, 0, 5, Resolution.SECOND),
        (-60, 0, 1, Resolution.SECOND),
        # What begins earlier is not known by the second.
        (-3600, 0, 60, Resolution.MINUTE),
        (-DAY + 60, 0, 300, Resolution.MINUTE),
        (-7 * DAY, 0, 3600, Resolution.HOUR),
        (-90 * DAY, 0, 43_200, Resolution.HOUR),
        # Ten minutes of last week.
        (-7 * DAY, -7 * DAY + 600, 3600, Resolution.HOUR),
    ],
)
def test_the_step_fits_the_span(begin: int, end: int, step: int, resolution: Resolution) -> None:
    span = span_of(HOUR + begin, HOUR + end, now=HOUR)
    assert (span.step, span.resolution) == (step, resolution)


@given(st.integers(1, 90 * DAY), st.integers(0, 90 * DAY), st.one_of(st.none(), st.integers(1, DAY)))
def test_spans_are_whole_and_bounded(length: int, ago: int, step: int | None) -> None:
    begin, end = HOUR - ago - length, HOUR - ago
    try:
        span = span_of(begin, end, now=HOUR, step=step)
    except ValueError:
        assert step is not None and length / step > POINTS_AT_MOST - 2
        return
    assert span.begin <= begin < end <= span.end
    assert span.begin % span.step == span.end % span.step == span.step % span.resolution == 0
    assert 1 <= len(span.times) <= POINTS_AT_MOST


def test_wishes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="begins where it ends"):
        span_of(HOUR, HOUR, now=HOUR)
    with pytest.raises(ValueError, match="more than 1000"):
        span_of(HOUR - DAY + 120, HOUR, now=HOUR, step=60)


@pytest.mark.django_db
def test_levels_go_on_and_sums_do_not() -> None:
    """By the minute, by hand: a level at 0:00, traffic at 1:10, a gap of 3:00 to 5:00, changes at 6:30."""
    own = Series.objects.create(kind=Kind.GROUP.value, name="chat")
    points = [
        Point(HOUR, _levels(100), 100),
        Point(HOUR + 70, _levels(100), 100, Amounts(4, 10, 5, 160, 80, read_us=[0, 4])),
        Point(HOUR + 390, _levels(40), 40),
        Point(HOUR + 391, _levels(70), 70),
    ]
    for point in points:
        SecondsChunk.objects.create(series=own, at=point.at, points=pack([point], point.at))
    SamplingGap.objects.create(begin_at=HOUR + 180, end_at=HOUR + 300)
    Position.objects.create(pk=1, seconds_done=HOUR + 540, facts_id="")
    roll_up()
    span = span_of(HOUR - 60, HOUR + 600, now=HOUR + 1000, step=60)
    (found,) = history([own], span)
    assert [at - HOUR for at in span.times] == list(range(-60, 600, 60))
    columns = found.columns
    # Before the beginning, in the gap and past the newest sample nothing is known.
    assert columns["used_bytes"] == [None, 100, 100, 100, None, None, 100, 70, 70, 70, None]
    assert columns["peak_bytes"] == [None, 100, 100, 100, None, None, 100, 100, 70, 70, None]
    assert columns["limit_bytes"][1] == 1000
    assert columns["requests"] == [0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]
    assert columns["hit_rate"][1:3] == [None, 0.5]
    assert columns["hit_tokens"][2] == 80
    assert columns["read_p50_ms"][1:3] == [None, 0.1]


def _levels(used: int) -> Levels:
    return Levels(used_bytes=used, serving_bytes=used, limit_bytes=1000)
