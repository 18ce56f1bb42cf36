"""Enumerations of groups, in the form that model fields and serializers take."""

from kvcm_platform.core.types import Placement, PreferStrategy, ReclaimPolicy, Retention, StorageType

PLACEMENTS = [(placement.value, placement.value) for placement in Placement]
PREFER_STRATEGIES = [(strategy.value, strategy.value) for strategy in PreferStrategy]
RECLAIM_POLICIES = [(policy.value, policy.value) for policy in ReclaimPolicy]
RETENTIONS = [(retention.value, retention.value) for retention in Retention]
STORAGE_TYPES = [(kind.value, kind.value) for kind in StorageType]
