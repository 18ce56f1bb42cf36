"""Writes of migrations."""

from apps.copies.services.requests import (
    migration_cancel,
    migration_preview,
    migration_request,
    policy_preview,
)
from apps.copies.services.rounds import copies_work

__all__ = ["copies_work", "migration_cancel", "migration_preview", "migration_request", "policy_preview"]
