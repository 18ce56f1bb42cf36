"""Knee, marginal hits, the gap to the bound, thinning and tables of curves, by hand."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.answers.definition import definition_text, totals_text
from kvcm_platform.optimizer.answers.export import COLUMNS, curve_document, curves_csv
from kvcm_platform.optimizer.answers.shape import (
    capacity_for,
    gap_to_bound,
    hit_rate_at,
    knee,
    marginal_hit_rate_per_gib,
)
from kvcm_platform.optimizer.answers.thinning import thinned
from kvcm_platform.optimizer.curve import Definition, Events, curve_from_json
from kvcm_platform.optimizer.roi import GIB, capacity_bytes

from .curves_by_hand import curve


def test_the_knee_is_furthest_above_the_straight_line() -> None:
    # From (0, 0) to (100, 50): distances 0.3-0.1, 0.8-0.2, 0.9-0.5, 0.
    found = knee(curve([10, 20, 50, 100, 1000], [15, 40, 45, 50, 50]))

    assert found is not None
    assert (found.capacity, found.hit_rate) == (20, 0.4)
    assert knee(curve([10], [0])) is None


def test_marginal_hit_rate_is_by_gib_since_the_point_before() -> None:
    known = curve([2, 4, 8], [10, 20, 22], block_bytes=GIB)

    assert marginal_hit_rate_per_gib(known, capacity_bytes(known)) == pytest.approx([0.05, 0.05, 0.005])


def test_between_two_points_the_lower_one_is_certain() -> None:
    steps = curve([10, 20], [30, 50])

    assert [hit_rate_at(steps, at) for at in (5, 10, 19, 20, 99)] == [0.0, 0.3, 0.3, 0.5, 0.5]
    assert [capacity_for(steps, rate) for rate in (0.1, 0.3, 0.31, 0.6)] == [10, 10, 20, None]


def test_the_gap_names_the_capacity_that_makes_up_for_it() -> None:
    gap = gap_to_bound(curve([10, 20, 40], [10, 20, 30]), curve([10, 20], [20, 35]))

    assert gap.gap == pytest.approx([0.1, 0.15])
    assert gap.equivalent_capacity.tolist() == [20, 0]
    with pytest.raises(DomainError):
        gap_to_bound(curve([10], [10]), curve([10], [10], blocks=99))


def test_thinning_leaves_points_as_they_are() -> None:
    capacities = list(range(1, 5001))
    whole = curve(capacities, capacities, blocks=10_000, series={"orphan_share": np.arange(5000) / 5000})
    few = thinned(whole, 50, keep=[1234])

    assert len(few.capacities) <= 51
    assert few.capacities[0] == 1 and few.capacities[-1] == 5000 and 1235 in few.capacities
    assert few.hit_blocks.tolist() == few.capacities.tolist()
    assert few.series["orphan_share"] == pytest.approx((few.capacities - 1) / 5000)
    assert thinned(whole, 5000).capacities.tolist() == capacities


def test_csv_has_a_line_for_each_point_of_each_curve() -> None:
    text = curves_csv(
        [
            ("lru", curve([1, 2], [10, 20], block_bytes=GIB)),
            ("=1+1", curve([1], [5], series={"orphan_share": [0.25]})),
        ]
    )
    rows = list(csv.DictReader(io.StringIO(text)))

    assert [row["label"] for row in rows] == ["lru", "lru", "'=1+1"]
    assert [row["capacity_bytes"] for row in rows] == [str(GIB), str(2 * GIB), ""]
    assert [row["hit_rate"] for row in rows] == ["0.100000", "0.200000", "0.050000"]
    assert rows[1]["marginal_hit_rate_per_gib"] == "0.1"
    assert [row["orphan_share"] for row in rows] == ["", "", "0.25"]
    assert tuple(rows[0])[: len(COLUMNS)] == COLUMNS


def test_the_document_of_a_curve_can_be_read_back() -> None:
    one = curve([1, 2], [10, 20])
    document = curve_document("lru", one)

    assert curve_from_json(document["curve"]).hit_blocks.tolist() == [10, 20]
    assert document["capacity_bytes"] is None
    assert document["compulsory_misses"] == 80
    assert document["unlimited_hit_rate"] == 0.2
    assert curve_document("lru", one, block_bytes=7)["capacity_bytes"] == [7, 14]


def test_definitions_say_what_moves_the_figure() -> None:
    text = definition_text(
        Definition(
            "s3_fifo", touch="root", events=Events.READ_WRITE, delay_us=10_000_000, has_partial_blocks=True
        )
    )
    for words in ("s3_fifo", "first block first", "10 s after", "partial last block", "exact"):
        assert words in text
    assert "sampled: 1 %" in definition_text(Definition("lru", is_exact=False, sampling="1 %"))
    assert "(40 distinct)" in totals_text(curve([1], [25]))
    assert "25.00%" in totals_text(curve([1], [25])) and "75 blocks are new" in totals_text(curve([1], [25]))
