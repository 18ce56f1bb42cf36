"""Windows, instances, types, histograms and working sets of the LRU pass equal plain counting."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.curve import Touch, Unit
from kvcm_platform.optimizer.curves import Histogram, lru_analysis, lru_curve
from kvcm_platform.optimizer.trace import Trace
from tests.support.naive_curves import hits_at, naive_lru, naive_reuse_gaps
from tests.support.optimizer_traces import Turn, random_trace, trace_of


def random_case(case: int) -> tuple[Trace, list[Turn]]:
    chance = random.Random(case)
    return random_trace(
        chance, requests=chance.randint(1, 16), keys=2, instances=3, most_blocks=5, is_plain=case % 3 == 0
    )


def expanded(histogram: Histogram) -> list[tuple[int, int]]:
    return [(int(e), int(n)) for e, n in zip(histogram.edges, histogram.counts, strict=True) if n]


@pytest.mark.parametrize("touch", Touch)
@pytest.mark.parametrize("unit", Unit)
def test_parts_equal_the_naive_model(touch: Touch, unit: Unit) -> None:
    modes = {"is_root": touch is Touch.ROOT, "in_bytes": unit is Unit.BYTES}
    for case in range(120):
        trace, turns = random_case(case)
        capacities = [0, 1, 2, 3, 5, 8, 13] if unit is Unit.BLOCKS else [0, 5000, 9000, 21000, 40000]
        analysis = lru_analysis(trace, capacities, windows_us=7, touch=touch, unit=unit)
        whole = lru_curve(trace, capacities, touch=touch, unit=unit)
        assert (analysis.total.hit_blocks == whole.hit_blocks).all()
        assert (analysis.total.series["evicted_blocks"] == whole.series["evicted_blocks"]).all()
        for place, capacity in enumerate(capacities):
            for number, curve in enumerate(analysis.by_instance.values()):
                mine = lambda turn, number=number: turn.instance == number  # noqa: E731
                assert hits_at(curve, place) == naive_lru(trace, turns, capacity, counts=mine, **modes)[0]
            for number, curve in enumerate(analysis.by_type.values()):
                mine = lambda turn, number=number: turn.type == number  # noqa: E731
                assert hits_at(curve, place) == naive_lru(trace, turns, capacity, counts=mine, **modes)[0]
            for window in analysis.windows:
                mine = lambda turn, one=window: one.begin_us <= turn.at_us < one.end_us  # noqa: E731
                expected = naive_lru(trace, turns, capacity, counts=mine, **modes)[0]
                assert hits_at(window.curve, place) == expected
        for parts in (analysis.by_instance.values(), [one.curve for one in analysis.windows]):
            assert sum(part.blocks for part in parts) == analysis.total.blocks
            assert sum(part.requests for part in parts) == len(turns)
            assert sum(part.distinct_blocks for part in parts) == trace.distinct_blocks


def test_histograms_and_working_sets_equal_plain_counting() -> None:
    for case in range(200):
        trace, turns = random_case(case)
        analysis = lru_analysis(trace, [1], windows_us=9)
        exact = lru_curve(trace, np.arange(1, trace.distinct_blocks + 1))
        by_distance = zip(exact.capacities, np.diff(exact.hit_blocks, prepend=0), strict=True)
        # Below 16 each value is a bin of its own.
        assert trace.distinct_blocks > 16 or expanded(analysis.reuse_distance) == [
            (int(edge), int(count)) for edge, count in by_distance if count
        ]
        gaps = Counter[int]()
        for gap in naive_reuse_gaps(turns):
            gaps[min(int(edge) for edge in [*analysis.reuse_time.edges, 10**9] if edge >= gap)] += 1
        assert expanded(analysis.reuse_time) == sorted(gaps.items())
        uses = Counter(path for turn in turns for path in turn.paths)
        blocks = Counter(uses.values())
        found = analysis.access_counts
        assert {int(e): int(n) for e, n in zip(found.edges, found.blocks, strict=True) if n} == blocks
        assert found.accesses.tolist() == [int(e) * blocks[int(e)] for e in found.edges]
        start = turns[0].at_us
        for number, one in enumerate(analysis.working_set):
            assert one.at_us == start + 9 * number
            mine = [turn for turn in turns if one.at_us <= turn.at_us < one.at_us + 9]
            assert one.blocks == len({path for turn in mine for path in turn.paths})
        assert analysis.working_set[-1].at_us <= turns[-1].at_us < analysis.working_set[-1].at_us + 9


def test_without_arguments_a_day_has_48_windows_and_all_is_json() -> None:
    turns = [Turn([number % 7, number % 3], number * 60_000_000) for number in range(1440)]
    analysis = lru_analysis(trace_of(turns))
    assert len(analysis.windows) == len(analysis.working_set) == 48
    assert analysis.windows[-1].end_us == turns[-1].at_us + 1
    assert [window.curve.requests for window in analysis.windows] == [30] * 48
    assert analysis.total.capacities[-1] == analysis.windows[0].curve.capacities[-1] == 21 + 7
    assert json.loads(json.dumps(analysis.to_json()))["total"]["requests"] == 1440
    assert lru_analysis(trace_of(turns), windows_us=0, by=()).windows == []


def test_an_empty_trace_is_analysed() -> None:
    analysis = lru_analysis(trace_of([]))
    assert analysis.windows == [] and analysis.total.blocks == 0
    assert analysis.by_instance["i0"].requests == 0


def test_what_there_is_no_room_for_is_refused() -> None:
    trace = trace_of([Turn([1], 0), Turn([1], 10**9)])
    cases = [({"windows_us": 1}, "windows_us"), ({"windows_us": -1}, "windows_us"), ({"by": ["user"]}, "by")]
    for arguments, field in [*cases, ({"windows_us": 10**6, "capacities": range(50_000)}, "capacities")]:
        with pytest.raises(DomainError) as refused:
            lru_analysis(trace, **arguments)
        assert refused.value.field == field
