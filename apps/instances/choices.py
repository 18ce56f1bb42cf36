"""Enumerations of groups, in the form that model fields and serializers take."""

from apps.common.choices import choices_of
from kvcm_platform.core.types import (
    Placement,
    PreferStrategy,
    ReclaimBudget,
    ReclaimPolicy,
    Retention,
    StorageType,
)

PLACEMENTS = choices_of(Placement)
PREFER_STRATEGIES = choices_of(PreferStrategy)
RECLAIM_POLICIES = choices_of(ReclaimPolicy)
RECLAIM_BUDGETS = choices_of(ReclaimBudget)
RETENTIONS = choices_of(Retention)
STORAGE_TYPES = choices_of(StorageType)
