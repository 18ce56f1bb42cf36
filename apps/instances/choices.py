"""Enumerations of groups, in the form that model fields and serializers take."""

from kvcm_platform.core.types import Placement, PreferStrategy, ReclaimPolicy, StorageType

PLACEMENTS = [(placement.value, placement.value) for placement in Placement]
PREFER_STRATEGIES = [(strategy.value, strategy.value) for strategy in PreferStrategy]
RECLAIM_POLICIES = [(policy.value, policy.value) for policy in ReclaimPolicy]
STORAGE_TYPES = [(kind.value, kind.value) for kind in StorageType]
