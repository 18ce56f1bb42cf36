"""What the counts of a shard's keys say about one that is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcm_platform.core.damage import Lost, Pulse

WHOLE = Pulse(
    blocks=100,
    runs=10,
    recency=10,
    due_times=20,
    deletions=20,
    session_fields=4,
    deadlines=2,
    ticket_fields=4,
    ticket_deadlines=2,
    writing=10,
    serving=80,
    pending=15,
    sequence=7,
    generation=1,
)
"""90 live blocks and 10 that are DELETING; of the pending deletions 15 count, 5 are second passes."""


def test_a_whole_shard_and_an_empty_one_miss_nothing():
    assert WHOLE.lost() == frozenset()
    assert Pulse().lost() == frozenset()
    assert replace(WHOLE, session_fields=10, ticket_fields=9).lost() == frozenset(), "masks, losers, verdicts"


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        ({"blocks": 0}, {Lost.BLOCKS}),
        ({"blocks": 89}, {Lost.BLOCKS}),
        ({"runs": 0}, {Lost.RUNS}),
        ({"runs": 3}, {Lost.RUNS}),
        ({"recency": 0}, {Lost.RECENCY}),
        ({"runs": 0, "recency": 0}, {Lost.RUNS}),
        ({"unlisted": 1}, {Lost.RUNS}),
        ({"dangling": 1}, {Lost.BLOCKS}),
        ({"writing": 0, "serving": 0, "pending": 0}, {Lost.USAGE}),
        ({"writing": 1, "serving": 2, "pending": 15}, {Lost.USAGE}),
        ({"due_times": 0}, {Lost.DUE_TIMES}),
        ({"due_times": 19}, {Lost.DUE_TIMES}),
        ({"deletions": 0}, {Lost.DELETIONS}),
        ({"deletions": 0, "due_times": 0}, {Lost.DELETIONS}),
        ({"session_fields": 0}, {Lost.SESSIONS}),
        ({"session_fields": 2}, {Lost.SESSIONS}),
        ({"session_fields": 0, "deadlines": 0}, {Lost.SESSIONS}),
        ({"deadlines": 0}, {Lost.DEADLINES}),
        ({"ticket_fields": 0}, {Lost.TICKETS}),
        ({"ticket_deadlines": 0}, {Lost.TICKET_DEADLINES}),
    ],
)
def test_one_key_that_is_gone_shows(gone, lost):
    assert replace(WHOLE, **gone).lost() == lost


def test_blocks_with_several_locations_are_suspected_until_they_were_counted():
    tiered = replace(WHOLE, serving=180)
    assert tiered.lost() == {Lost.BLOCKS}
    assert replace(tiered, spread=2000).lost() == frozenset()
    assert replace(tiered, spread=2000, blocks=80).lost() == {Lost.BLOCKS}
