"""Who may call AdminService (KVCM_ADMIN_AUTH), and in whose name a call acts."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from django.utils import timezone

from apps.accounts.selectors import actor_of, token_get
from apps.accounts.services import token_touch
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError

REGISTER = "RegisterInstance"


@dataclass(frozen=True, slots=True)
class Caller:
    """What a door knows of its peer; the last three are headers as sent."""

    address: str
    authorization: str = ""
    internal_token: str = ""
    forwarded_for: str = ""


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """`mode` is KVCM_ADMIN_AUTH: "token", or "open" (accepted by `Env` on loopback only)."""

    mode: str
    internal_token: str

    def actor(self, *, rpc: str, role: Role, caller: Caller, request_id: str) -> Actor:
        """The acting account. Reads the database. Raises UNAUTHENTICATED or PERMISSION_DENIED.

        The internal token of the data plane is trusted for two things alone: a registration that a
        metadata process makes for an engine it let in, and the address of a caller whose AdminService
        call it passes on. Such a call carries the caller's own credential, which counts as on this port.
        """
        is_internal = hmac.compare_digest(caller.internal_token.encode(), self.internal_token.encode())
        if is_internal and rpc == REGISTER and not caller.forwarded_for:
            return Actor.system("metadata", address=caller.address, request_id=request_id)
        address = caller.forwarded_for if is_internal and caller.forwarded_for else caller.address
        if self.mode == "open":
            return Actor(name="anonymous", role=Role.ADMIN, address=address, request_id=request_id)
        scheme, _, secret = caller.authorization.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise DomainError(Code.UNAUTHENTICATED, "a bearer token is required")
        token = token_get(secret=secret.strip())
        token_touch(token=token, now=timezone.now())
        actor = actor_of(user=token.user, token=token, address=address, request_id=request_id)
        actor.require(role)
        return actor
