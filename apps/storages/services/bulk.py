"""The same change of several storages, each on its own: one that is refused does not keep the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.common.actor import Actor, Role
from apps.storages.choices import BulkAction
from apps.storages.services.update import storage_update
from kvcm_platform.core.errors import DomainError, invalid

MOST = 100
"""Storages a call: each that is enabled is probed first."""
_SETTINGS: dict[BulkAction, dict[str, Any]] = {
    BulkAction.ENABLE: {"is_enabled": True},
    BulkAction.DISABLE: {"is_enabled": False},
    BulkAction.DRAIN: {"is_draining": True},
    BulkAction.UNDRAIN: {"is_draining": False},
}


@dataclass(frozen=True, slots=True)
class ItemReport:
    """What became of one storage; `code` is empty where the change was made."""

    name: str
    code: str = ""
    field: str | None = None
    message: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.code


def storages_change(*, acting: Actor, action: BulkAction, names: Sequence[str]) -> list[ItemReport]:
    """Carry the action out on each, in order. Raises INVALID_ARGUMENT, PERMISSION_DENIED."""
    acting.require(Role.OPERATOR)
    acting.require_all_groups()
    if not 1 <= len(names) <= MOST:
        raise invalid("names", f"must be 1 to {MOST}, not {len(names)}")
    return [_change(acting, name, action) for name in dict.fromkeys(names)]


def _change(acting: Actor, name: str, action: BulkAction) -> ItemReport:
    try:
        storage = storage_update(acting=acting, name=name, settings=_SETTINGS[action])
    except DomainError as error:
        return ItemReport(name, error.code, error.field, error.message)
    is_worth_saying = action in {BulkAction.ENABLE, BulkAction.UNDRAIN} and not storage.is_available
    return ItemReport(name, message=f"not available: {storage.health_message}" if is_worth_saying else "")
