from __future__ import annotations

import pytest

from tests.support.valkey_cluster import ValkeyCluster, empty_cluster, shared_cluster

__all__ = ["empty_cluster", "shared_cluster"]


@pytest.fixture
def empty_valkey(empty_cluster: ValkeyCluster) -> ValkeyCluster:
    """What the tests of the folder above run on, here a Cluster."""
    return empty_cluster
