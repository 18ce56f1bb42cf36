"""An instance whose shards lie on several nodes of a Cluster behaves like one on a single server."""

from __future__ import annotations

from _pytest.fixtures import FixtureFunctionDefinition

import tests.data_plane.test_pool_writes as pool_writes
import tests.data_plane.test_queries as queries
import tests.data_plane.test_reclaim as reclaim
import tests.data_plane.test_removal as removal
import tests.data_plane.test_writes as writes

for module in (pool_writes, queries, reclaim, removal, writes):
    subject = module.__name__.rpartition("test_")[2]
    for name, test in vars(module).copy().items():
        marks = {mark.name for mark in getattr(test, "pytestmark", ())}
        if name.startswith("test_") and "one_shard" not in marks:
            globals()[f"test_{subject}_{name.removeprefix('test_')}"] = test
        elif isinstance(test, FixtureFunctionDefinition):
            globals()[name] = test
