"""Edges of histograms: where they lie, and that each value finds its own."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.curves.bins import capacities_of, edges_of, find_bin, log_linear


@pytest.mark.parametrize("bits", [1, 3, 4, 7])
@pytest.mark.parametrize("most", [1, 2, 5, 255, 256, 257, 40_000, 2**40 + 3])
def test_log_linear_edges(bits: int, most: int) -> None:
    edges = log_linear(most, per_octave_bits=bits)
    assert edges[0] == 1 and edges[-1] == most
    assert (np.diff(edges) > 0).all()
    linear = edges[edges < 2 << bits]
    assert linear.tolist() == list(range(1, len(linear) + 1))
    # Neighbours differ by 1 / 2^bits at most.
    assert (np.diff(edges) <= np.maximum(1, edges[:-1] // (1 << bits) + 1)).all()
    assert set(edges[:-1].tolist()) <= set(log_linear(most).tolist())


def test_each_value_finds_the_first_edge_not_below_it() -> None:
    for case in range(300):
        chance = random.Random(case)
        most = 10 ** chance.randint(1, 15)
        edges = edges_of([chance.randrange(most) for _ in range(chance.randint(1, 40))])
        for value in [0, 1, most, *(chance.randrange(most) for _ in range(30)), *edges.values.tolist()]:
            expected = next((at for at, edge in enumerate(edges.values) if edge >= value), len(edges))
            assert find_bin(value, edges.values, edges.first) == expected
    fine = edges_of(log_linear(3000))
    for value in range(3002):
        expected = next((at for at, edge in enumerate(fine.values) if edge >= value), len(fine))
        assert find_bin(value, fine.values, fine.first) == expected


def test_capacities_are_sorted_and_bounded() -> None:
    assert capacities_of([5, 1, 5, 0]).tolist() == [0, 1, 5]
    for bad in ([], [3, -1], range(100_001), [2**62 + 1], [2**70]):
        with pytest.raises(DomainError) as refused:
            capacities_of(bad)
        assert refused.value.field == "capacities"
