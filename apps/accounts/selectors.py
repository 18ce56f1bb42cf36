"""Reads of accounts and tokens, and the answer to "who is this?"."""

from __future__ import annotations

import hashlib
from dataclasses import replace

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
    account = Actor(
        name=user.username,
        role=Role(user.role),
        groups=None if user.groups is None else frozenset(user.groups),
        address=address,
        request_id=request_id,
    )
    if token is None:
        return account
    actor = account.narrowed(role=Role(token.role) if token.role else None, groups=token.groups)
    if actor is None:
        raise DomainError(
            Code.PERMISSION_DENIED,
            f"{user.username} is {user.role} now, which leaves nothing of a token for {token.role}",
        )
    return replace(actor, token_name=token.name, expires_at=token.expires_at)
