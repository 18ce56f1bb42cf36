"""The engine-side client: metadata calls, moving of block bytes, replay of traces.

from kvcm_platform.client import BlockingMetadataClient, Connection

with BlockingMetadataClient(Connection("127.0.0.1:6381")) as client:
    hit = client.get_cache_location("my-model", keys)
"""

from kvcm_platform.core.registry import LocationSpecGroup, LocationSpecInfo, ModelDeployment
from kvcm_platform.core.storage_configs import StorageDescription
from kvcm_platform.core.types import QueryType, StorageType, TrimStrategy

from .aio import MetadataClient
from .blocking import BlockingMetadataClient
from .channel import ClientTls, Connection, RetryPolicy
from .errors import KvcmError, TransportError
from .kv import BlockingKvClient, KvClient
from .migration_calls import MigrationPlan, MigrationProgress
from .migrations import BlockingMigrationClient, MigrationClient
from .types import (
    BlockMeta,
    ClusterInfo,
    FoundValues,
    InstanceInfo,
    KvInstanceInfo,
    Location,
    Locations,
    Registration,
    Spec,
    StartedPut,
    StartedWrite,
)

__all__ = [
    "BlockMeta",
    "BlockingKvClient",
    "BlockingMetadataClient",
    "BlockingMigrationClient",
    "ClientTls",
    "ClusterInfo",
    "Connection",
    "FoundValues",
    "InstanceInfo",
    "KvClient",
    "KvInstanceInfo",
    "KvcmError",
    "Location",
    "LocationSpecGroup",
    "LocationSpecInfo",
    "Locations",
    "MetadataClient",
    "MigrationClient",
    "MigrationPlan",
    "MigrationProgress",
    "ModelDeployment",
    "QueryType",
    "Registration",
    "RetryPolicy",
    "Spec",
    "StartedPut",
    "StartedWrite",
    "StorageDescription",
    "StorageType",
    "TransportError",
    "TrimStrategy",
]
