"""Changes of accounts and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.accounts.publication import tokens_publish_on_commit
from apps.accounts.selectors import TOKEN_PREFIX, token_digest
from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.values import check_account_name

log = structlog.get_logger(__name__)

_LAST_USED_STEP = timedelta(minutes=1)


def account_create(
    *,
    acting: Actor,
    username: str,
    password: str,
    role: Role,
    groups: Collection[str] | None = None,
    is_password_checked: bool = True,
) -> User:
    """Add an account. Raises INVALID_ARGUMENT for a bad name or weak password, DUPLICATE for a taken name.

    PERMISSION_DENIED for an actor limited to some groups, which could lift its limit with it.
    `is_password_checked` False is for the password that the installation itself was given.
    """
    if is_password_checked:
        _require_strong(password, username)
    return _create(acting=acting, username=username, password=password, role=role, groups=groups)


def account_create_leniently(*, acting: Actor, username: str, password: str, role: Role) -> tuple[User, str]:
    """Add an account the protocol's way: a weak or missing password gives an account without a login.

    Returns the account and what the caller should be told; empty when the password was accepted.
    """
    try:
        _require_strong(password, username)
    except DomainError as error:
        user = _create(acting=acting, username=username, password=None, role=role, groups=None)
        return user, f"created without a usable login: {error.message}"
    return _create(acting=acting, username=username, password=password, role=role, groups=None), ""


@transaction.atomic
def _create(
    *, acting: Actor, username: str, password: str | None, role: Role, groups: Collection[str] | None
) -> User:
    acting.require_all_groups()
    check_account_name(username)
    if User.objects.filter(username=username).exists():
        raise DomainError(Code.DUPLICATE, f"account {username} exists", field="username")
    user = User(username=username, role=role.value, groups=None if groups is None else sorted(groups))
    user.set_password(password)
    user.save()
    audit_record(acting=acting, action="account.create", kind="account", name=username, after=_state(user))
    return user


@transaction.atomic
def account_update(*, acting: Actor, username: str, changes: Mapping[str, Any]) -> User:
    """Change role, groups, theme, is_active or password of an account.

    Raises NOT_FOUND, PERMISSION_DENIED for an actor limited to some groups, and IN_USE for what would
    leave the platform without an active admin of every group.
    """
    acting.require_all_groups()
    _lock_admins()
    user = _locked(username)
    before = _state(user)
    for name in ("role", "groups", "theme", "is_active"):
        if name in changes:
            setattr(user, name, changes[name])
    if "password" in changes:
        _require_strong(changes["password"], username)
        user.set_password(changes["password"])
    user.save()
    _require_some_admin()
    tokens_publish_on_commit(user=user)
    after = {**_state(user), "is_password_changed": "password" in changes}
    audit_record(
        acting=acting,
        action="account.update",
        kind="account",
        name=username,
        before={**before, "is_password_changed": False},
        after=after,
    )
    return user


def theme_set(*, user: User, theme: str) -> None:
    """Keep the look that somebody chose for themselves; not an act worth an audit entry."""
    user.theme = theme
    user.save(update_fields=["theme"])


@transaction.atomic
def account_remove(*, acting: Actor, username: str) -> None:
    """Remove an account and its tokens. Raises NOT_FOUND, and IN_USE for the last active admin.

    PERMISSION_DENIED for an actor limited to some groups.
    """
    acting.require_all_groups()
    _lock_admins()
    user = _locked(username)
    audit_record(acting=acting, action="account.remove", kind="account", name=username, before=_state(user))
    tokens_publish_on_commit(user=user)
    user.delete()
    _require_some_admin()


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made. `secret` is shown once and kept nowhere."""

    token: ApiToken
    secret: str


@transaction.atomic
def token_create(
    *,
    acting: Actor,
    username: str,
    name: str,
    role: Role | None = None,
    groups: Collection[str] | None = None,
    expires_at: datetime | None = None,
) -> NewToken:
    """Make a token for an account; without a scope it has all of the account's rights.

    A token made with a token has at most its rights and lives no longer. Raises NOT_FOUND, DUPLICATE for
    a name in use, PERMISSION_DENIED for a role beyond the account's.
    """
    user = _locked(username)
    if acting.name != username and (acting.role is not Role.ADMIN or acting.groups is not None):
        raise DomainError(Code.PERMISSION_DENIED, "tokens of other accounts are an admin's business")
    if acting.token_name and acting.name == username and role is None:
        role = acting.role  # also later, when the account may have become more
    if acting.expires_at is not None:
        expires_at = min(expires_at or acting.expires_at, acting.expires_at)
    if role is not None and not (Role(user.role).covers(role) and acting.role.covers(role)):
        raise DomainError(Code.PERMISSION_DENIED, f"{username} has no right to the role {role}", field="role")
    if acting.groups is not None:
        groups = acting.groups if groups is None else acting.groups & frozenset(groups)
    if not name or len(name) > 100:
        raise invalid("name", "must have 1 to 100 characters")
    if ApiToken.objects.filter(user=user, name=name, revoked_at__isnull=True).exists():
        raise DomainError(Code.DUPLICATE, f"{username} has a token named {name}", field="name")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        digest=token_digest(secret),
        prefix=secret[: len(TOKEN_PREFIX) + 4],
        role=role.value if role else "",
        groups=None if groups is None else sorted(groups),
        expires_at=expires_at,
    )
    after = {"role": token.role, "groups": token.groups, "expires_at": expires_at and expires_at.isoformat()}
    audit_record(
        acting=acting, action="token.create", kind="api_token", name=f"{username}/{name}", after=after
    )
    tokens_publish_on_commit(user=user)
    return NewToken(token=token, secret=secret)


@transaction.atomic
def token_revoke(*, acting: Actor, token: ApiToken) -> None:
    """End a token. Revoking it again changes nothing."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        name = f"{token.user.username}/{token.name}"
        audit_record(acting=acting, action="token.revoke", kind="api_token", name=name)
        tokens_publish_on_commit(user=token.user)


def token_touch(*, token: ApiToken, now: datetime) -> None:
    """Note that a token was used; at most one write a minute and token."""
    if token.last_used_at is not None and now - token.last_used_at < _LAST_USED_STEP:
        return
    try:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    except DatabaseError as error:
        log.warning("use of a token was not noted", token=token.pk, error=str(error))


def _locked(username: str) -> User:
    user = User.objects.select_for_update().filter(username=username).first()
    if user is None:
        raise DomainError(Code.NOT_FOUND, f"account {username} does not exist", field="username")
    return user


def _require_strong(password: str, username: str) -> None:
    try:
        validate_password(password, User(username=username))
    except ValidationError as error:
        raise invalid("password", " ".join(error.messages)) from error


def _admins() -> QuerySet[User]:
    """Those who may change accounts."""
    return User.objects.filter(role=Role.ADMIN.value, is_active=True, groups__isnull=True)


def _lock_admins() -> None:
    """Two admins who remove each other at once must not both find the other one still there."""
    list(_admins().select_for_update().order_by("pk").values_list("pk", flat=True))


def _require_some_admin() -> None:
    if not _admins().exists():
        raise DomainError(Code.IN_USE, "the last active admin account of every group must stay one")


def _state(user: User) -> dict[str, Any]:
    return {"role": user.role, "groups": user.groups, "theme": user.theme, "is_active": user.is_active}
