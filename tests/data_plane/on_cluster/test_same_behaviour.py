"""What holds on one server holds on a Cluster: the same tests, with `empty_valkey` being one."""

from __future__ import annotations

from _pytest.fixtures import FixtureFunctionDefinition

import tests.data_plane.test_damage as damage
import tests.data_plane.test_deletions as deletions
import tests.data_plane.test_evicting as evicting
import tests.data_plane.test_gone as gone
import tests.data_plane.test_marks as marks
import tests.data_plane.test_pool_writes as pool_writes
import tests.data_plane.test_queries as queries
import tests.data_plane.test_races as races
import tests.data_plane.test_reclaim as reclaim
import tests.data_plane.test_reclaim_troubles as reclaim_troubles
import tests.data_plane.test_removal as removal
import tests.data_plane.test_request_log as request_log
import tests.data_plane.test_search_cache as search_cache
import tests.data_plane.test_trim_counts as trim_counts
import tests.data_plane.test_writes as writes

for module in (
    damage,
    deletions,
    evicting,
    gone,
    marks,
    pool_writes,
    queries,
    races,
    reclaim,
    reclaim_troubles,
    removal,
    request_log,
    search_cache,
    trim_counts,
    writes,
):
    subject = module.__name__.rpartition("test_")[2]
    for name, test in vars(module).copy().items():
        if name.startswith("test_"):
            globals()[f"test_{subject}_{name.removeprefix('test_')}"] = test
        elif isinstance(test, FixtureFunctionDefinition):
            globals()[name] = test
