"""Who acts: passed explicitly to every service, written into every audit entry."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from kvcm_platform.core.errors import Code, DomainError


class Role(StrEnum):
    """What an account may do. `engine` stands apart: it speaks to the data plane only."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    ENGINE = "engine"

    def covers(self, other: Role) -> bool:
        """Whether this role includes every right of `other`."""
        return other in _COVERED[self]

    def narrowed(self, scope: Role) -> Role | None:
        """The rights that this role and `scope` have in common; None where there are none."""
        if self.covers(scope):
            return scope
        return self if scope.covers(self) else None


_COVERED: dict[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.OPERATOR, Role.ENGINE}),
    Role.ADMIN: frozenset(Role),
    Role.ENGINE: frozenset({Role.ENGINE}),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """One acting person, token or process. `groups` None = every instance group.

    `expires_at` is the end of the acting token; None where there is none.
    """

    name: str
    role: Role
    groups: frozenset[str] | None = None
    token_name: str = ""
    address: str = ""
    request_id: str = ""
    expires_at: datetime | None = None

    @classmethod
    def system(cls, name: str, *, address: str = "", request_id: str = "") -> Actor:
        """A process of the platform itself."""
        return cls(name=f"system:{name}", role=Role.ADMIN, address=address, request_id=request_id)

    def narrowed(self, *, role: Role | None, groups: Collection[str] | None) -> Actor | None:
        """This actor within a scope of role and groups, None = no limit; None where no right is left."""
        left = self.role if role is None else self.role.narrowed(role)
        if left is None:
            return None
        if groups is None or self.groups is None:
            both = self.groups if groups is None else frozenset(groups)
        else:
            both = self.groups & frozenset(groups)
        return replace(self, role=left, groups=both)

    def require(self, role: Role) -> None:
        """Raise PERMISSION_DENIED unless this actor has the rights of `role`."""
        if not self.role.covers(role):
            raise DomainError(
                Code.PERMISSION_DENIED, f"this needs the role {role}; {self.name} is {self.role}"
            )

    def require_group(self, group: str) -> None:
        """Raise PERMISSION_DENIED where the actor's scope leaves `group` out."""
        if self.groups is not None and group not in self.groups:
            raise DomainError(Code.PERMISSION_DENIED, f"{self.name} may not act on instance group {group}")

    def require_all_groups(self) -> None:
        """Raise PERMISSION_DENIED for an actor limited to some groups: what it asks for concerns them all."""
        if self.groups is not None:
            raise DomainError(Code.PERMISSION_DENIED, f"{self.name} is limited to some instance groups")
