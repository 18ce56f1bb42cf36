"""Who acts: passed explicitly to every service, written into every audit entry."""

from __future__ import annotations

from dataclasses import dataclass
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


_COVERED: dict[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.OPERATOR, Role.ENGINE}),
    Role.ADMIN: frozenset(Role),
    Role.ENGINE: frozenset({Role.ENGINE}),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """One acting person, token or process. `groups` None = every instance group."""

    name: str
    role: Role
    groups: frozenset[str] | None = None
    token_name: str = ""
    address: str = ""
    request_id: str = ""

    @classmethod
    def system(cls, name: str, *, address: str = "", request_id: str = "") -> Actor:
        """A process of the platform itself."""
        return cls(name=f"system:{name}", role=Role.ADMIN, address=address, request_id=request_id)

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
        """Raise PERMISSION_DENIED for an actor limited to some groups: storages are shared by all."""
        if self.groups is not None:
            raise DomainError(Code.PERMISSION_DENIED, f"{self.name} is limited to some instance groups")
