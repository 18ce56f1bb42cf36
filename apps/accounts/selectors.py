"""Reads of accounts and tokens, and the answer to "who is this?"."""

from __future__ import annotations

import hashlib

from django.db.models import QuerySet

from apps.accounts.models import ApiToken, User
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError

TOKEN_PREFIX = "kvcm_"  # noqa: S105


def account_list() -> QuerySet[User]:
    return User.objects.order_by("username")


def token_list(*, acting: Actor) -> QuerySet[ApiToken]:
    """Tokens that `acting` may see: an admin of every group everyone's, others their own."""
    tokens = ApiToken.objects.select_related("user").order_by("-id")
    sees_all = acting.role is Role.ADMIN and acting.groups is None
    return tokens if sees_all else tokens.filter(user__username=acting.name)


def token_digest(secret: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def token_get(*, secret: str) -> ApiToken:
    """The live token with this secret, its account loaded. Raises UNAUTHENTICATED."""
    token = (
        ApiToken.objects.select_related("user").filter(digest=token_digest(secret)).first()
        if secret.startswith(TOKEN_PREFIX)
        else None
    )
    if token is None or not token.is_live or not token.user.is_active:
        raise DomainError(Code.UNAUTHENTICATED, "the token is unknown, expired or revoked")
    return token


def actor_of(*, user: User, token: ApiToken | None = None, address: str = "", request_id: str = "") -> Actor:
    """The acting account with the rights that remain after the token's scope.

    A token never gives more than its account has now, even where the account was demoted later.
    Raises PERMISSION_DENIED where nothing remains, as of an engine's token of a viewer.
    """
    role = Role(user.role)
    groups = None if user.groups is None else frozenset(user.groups)
    if token is not None:
        if token.role:
            role = _narrowed(role, Role(token.role), user.username)
        if token.groups is not None:
            groups = frozenset(token.groups) if groups is None else groups & frozenset(token.groups)
    return Actor(
        name=user.username,
        role=role,
        groups=groups,
        token_name=token.name if token else "",
        address=address,
        request_id=request_id,
        expires_at=token.expires_at if token else None,
    )


def _narrowed(role: Role, scope: Role, name: str) -> Role:
    left = role.narrowed(scope)
    if left is None:
        raise DomainError(
            Code.PERMISSION_DENIED, f"{name} is {role} now, which leaves nothing of a token for {scope}"
        )
    return left
