"""Storages and their segments, their health history, and which instance groups name them."""

from .candidate import StorageCandidate
from .history import StorageHealthChange, StorageHealthSample, StorageIncident
from .segment import StorageSegment
from .storage import MAX_NUMBER, Storage

__all__ = [
    "MAX_NUMBER",
    "Storage",
    "StorageCandidate",
    "StorageHealthChange",
    "StorageHealthSample",
    "StorageIncident",
    "StorageSegment",
]
