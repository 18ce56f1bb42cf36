from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.reclaim.budgets import allotments
from kvcm_platform.core.types import ReclaimBudget

HAVE = st.dictionaries(st.integers(1, 9), st.integers(0, 1000), max_size=6)


@pytest.mark.parametrize(
    ("budget", "need", "have", "parts"),
    [
        (ReclaimBudget.USAGE_PROPORTIONAL, 100, {1: 300, 2: 100}, {1: 75, 2: 25}),
        (ReclaimBudget.USAGE_PROPORTIONAL, 10, {1: 1, 2: 1, 3: 1}, {1: 1, 2: 1, 3: 1}),
        (ReclaimBudget.USAGE_PROPORTIONAL, 2, {1: 5, 2: 5, 3: 5}, {1: 1, 2: 1, 3: 0}),
        (ReclaimBudget.FIXED, 90, {1: 10, 2: 100, 3: 100}, {1: 10, 2: 40, 3: 40}),
        (ReclaimBudget.FIXED, 90, {1: 1000, 2: 1000, 3: 1000}, {1: 30, 2: 30, 3: 30}),
        (ReclaimBudget.FIXED, 500, {1: 10, 2: 20}, {1: 10, 2: 20}),
        (ReclaimBudget.GROUP_LRU, 50, {1: 10, 2: 100}, {1: 10, 2: 50}),
        (ReclaimBudget.FIXED, 0, {1: 10}, {}),
        (ReclaimBudget.FIXED, 5, {1: 0}, {}),
    ],
)
def test_parts(budget, need, have, parts):
    assert allotments(budget, need, have) == parts


@given(st.sampled_from([ReclaimBudget.USAGE_PROPORTIONAL, ReclaimBudget.FIXED]), st.integers(0, 5000), HAVE)
def test_parts_are_the_need_together_and_nobody_gives_what_it_lacks(budget, need, have):
    parts = allotments(budget, need, have)
    assert sum(parts.values()) == min(need, sum(have.values()))
    assert all(0 <= part <= have[number] for number, part in parts.items())


@given(st.integers(0, 5000), HAVE)
def test_fixed_parts_are_equal_but_for_those_that_lack(need, have):
    parts = allotments(ReclaimBudget.FIXED, need, have)
    most = max(parts.values(), default=0)
    assert all(part >= most - 1 or part == have[number] for number, part in parts.items())


@given(st.integers(0, 5000), HAVE)
def test_proportional_parts_are_the_share_of_each(need, have):
    total = sum(have.values())
    parts = allotments(ReclaimBudget.USAGE_PROPORTIONAL, need, have)
    for number, part in parts.items():
        assert abs(part - min(need, total) * have[number] / total) < 1
