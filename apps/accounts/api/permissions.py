"""Which role a request needs. Scopes by group are the services' and selectors' business."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from apps.common.actor import Actor, Role


class RolePermission(BasePermission):
    """Reading and changing need a role each."""

    reads = Role.VIEWER
    changes = Role.OPERATOR

    def has_permission(self, request: Request, view: Any) -> bool:
        # Asking for the user is what makes the framework authenticate.
        if not request.user.is_authenticated:
            return False
        actor: Actor = request.actor
        needed = self.reads if request.method in SAFE_METHODS else self.changes
        self.message = f"this needs the role {needed}; {actor.name} is {actor.role}"
        return actor.role.covers(needed)


class ReadsAsViewer(RolePermission):
    """Viewers read, operators change."""


class OperatorsOnly(RolePermission):
    """Operators read and change."""

    reads = Role.OPERATOR


class AdminsOnly(RolePermission):
    """Admins read and change."""

    reads = Role.ADMIN
    changes = Role.ADMIN


class AnyAccount(BasePermission):
    """Whoever is signed in, of any role."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return bool(request.user.is_authenticated)
