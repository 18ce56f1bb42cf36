"""The figures of the last 24 hours, in the overview's picture."""

from __future__ import annotations

import pytest
import redis

from apps.live.overview import Overview
from apps.usage.choices import Kind
from apps.usage.models import Position, SecondsChunk, Series
from apps.usage.packing import pack
from apps.usage.services import day_publish, roll_up
from kvcm_platform.core.points import Amounts, Levels, Point

pytestmark = pytest.mark.django_db
HOUR = 1_800_000_000
DAY = 86_400


def test_day_of_the_overview(index: redis.Redis) -> None:
    overview = Overview(index)
    assert overview.picture()["day"] is None
    assert day_publish(client=index) is None
    own = Series.objects.create(kind=Kind.PLATFORM.value, name="")
    yesterday = Amounts(1000, 1000, 1000)
    today = Amounts(2, 10, 4, 160, 64, 3, 300, 1, 5, 4, 6, [98, 0, 1, 1], [1])
    for at, amounts in ((HOUR - 60, yesterday), (HOUR, today), (HOUR + DAY - 30, today)):
        SecondsChunk.objects.create(series=own, at=at, points=pack([Point(at, Levels(), 0, amounts)], at))
    # One is in the minutes by then, the newest only in the seconds.
    Position.objects.create(pk=1, seconds_done=HOUR + DAY, facts_id="")
    roll_up()
    SecondsChunk.objects.filter(at__lt=HOUR + DAY - 60).delete()
    Position.objects.update(minutes_done=HOUR + DAY - 60)
    day_publish(client=index)
    # By hand: twice `today`. Of 200 reads 196 within 50 µs, two within 200, two within 400.
    assert overview.picture()["day"] == {
        **{"since": "2027-01-15T08:00:00.000Z", "until": "2027-01-16T08:00:00.000Z"},
        **{"requests": 4, "requested_blocks": 20, "hit_blocks": 8, "hit_rate": 0.4},
        **{"requested_tokens": 320, "hit_tokens": 128, "token_hit_rate": 0.4},
        **{"written_blocks": 6, "written_bytes": 600, "removed_blocks": 2},
        **{"write_refused": 10, "quota_refused": 8, "failed_blocks": 12},
        **{"read_p50_ms": 0.05, "read_p99_ms": 0.2, "write_p50_ms": 0.05, "write_p99_ms": 0.05},
    }
