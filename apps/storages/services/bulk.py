"""The same change of several storages, each on its own: one that is refused does not keep the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.common.actor import Actor, Role
from apps.storages.choices import BulkAction
from apps.storages.services.update import storage_update
from kvcm_platform.core.errors import Code, DomainError, invalid

MOST = 100
"""Storages a call: each that is enabled is probed first."""
MOST_SECONDS = 30.0
"""What is left by then is not tried: each that hangs takes seconds, and somebody waits for the answer."""
_NOT_TRIED = {"code": Code.TOO_MANY, "message": "not tried: the others took too long; ask for it again"}
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
    deadline = time.monotonic() + MOST_SECONDS
    if not 1 <= len(names) <= MOST:
        raise invalid("names", f"must be 1 to {MOST}, not {len(names)}")
    return [
        _change(acting, name, action) if time.monotonic() < deadline else ItemReport(name, **_NOT_TRIED)
        for name in dict.fromkeys(names)
    ]


def _change(acting: Actor, name: str, action: BulkAction) -> ItemReport:
    try:
        storage = storage_update(acting=acting, name=name, settings=_SETTINGS[action])
    except DomainError as error:
        return ItemReport(name, error.code, error.field, error.message)
    is_worth_saying = action in {BulkAction.ENABLE, BulkAction.UNDRAIN} and not storage.is_available
    return ItemReport(name, message=f"not available: {storage.health_message}" if is_worth_saying else "")
