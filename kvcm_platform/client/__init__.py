"""The engine-side client: metadata calls, moving of block bytes, replay of traces.

from kvcm_platform.client import BlockingMetadataClient, Connection

with BlockingMetadataClient(Connection("127.0.0.1:6381")) as client:
    hit = client.get_cache_location("my-model", keys)
"""

from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment

from .aio import MetadataClient
from .blocking import BlockingMetadataClient
from .channel import ClientTls, Connection, RetryPolicy
from .errors import KvcmError, TransportError
from .types import (
    BlockMeta,
    ClusterInfo,
    InstanceInfo,
    Location,
    Locations,
    Registration,
    Spec,
    StartedWrite,
    StorageDescription,
)

__all__ = [
    "BlockMeta",
    "BlockingMetadataClient",
    "ClientTls",
    "ClusterInfo",
    "Connection",
    "InstanceInfo",
    "KvcmError",
    "Location",
    "LocationSpecInfo",
    "Locations",
    "MetadataClient",
    "ModelDeployment",
    "Registration",
    "RetryPolicy",
    "Spec",
    "StartedWrite",
    "StorageDescription",
    "TransportError",
]
