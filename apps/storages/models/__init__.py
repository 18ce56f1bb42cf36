"""Storages and their segments, their health history, and which instance groups name them."""

from .candidate import StorageCandidate
from .history import StorageHealthChange, StorageHealthSample, StorageIncident
from .orphans import UNDER_WAY, OrphanRun
from .segment import StorageSegment
from .storage import MAX_NUMBER, Storage

__all__ = [
    "MAX_NUMBER",
    "UNDER_WAY",
    "OrphanRun",
    "Storage",
    "StorageCandidate",
    "StorageHealthChange",
    "StorageHealthSample",
    "StorageIncident",
    "StorageSegment",
]
