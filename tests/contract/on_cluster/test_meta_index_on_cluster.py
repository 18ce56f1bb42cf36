"""MetaIndex over a Cluster of three: what holds on one server holds here, its hash tags on several."""

from __future__ import annotations

from kvcm_platform.index import keyspace
from kvcm_platform.index.slots import COUNT, slot_of
from tests.contract.test_meta_index import (
    test_a_scan_under_change_sees_every_key_that_stays,
    test_big_batches,
    test_duplicates_are_dealt_with_in_order,
    test_every_key_is_as_likely_in_a_sample,
    test_random_programs_agree_with_a_dict,
    test_tasks_that_increment_the_same_counters_lose_nothing,
)
from tests.contract.test_meta_index_limits import (
    test_max_key_count_is_exact,
    test_max_key_count_is_exact_under_concurrency,
)

__all__ = [
    "test_a_scan_under_change_sees_every_key_that_stays",
    "test_big_batches",
    "test_duplicates_are_dealt_with_in_order",
    "test_every_key_is_as_likely_in_a_sample",
    "test_max_key_count_is_exact",
    "test_max_key_count_is_exact_under_concurrency",
    "test_random_programs_agree_with_a_dict",
    "test_tasks_that_increment_the_same_counters_lose_nothing",
]


def test_the_shards_of_these_tests_lie_on_several_servers(empty_valkey):
    slots = [slot_of(keyspace.meta_index_shard("test", shard)) for shard in range(3)]
    share = COUNT / len(empty_valkey.masters)
    assert len({slot // share for slot in slots}) > 1
