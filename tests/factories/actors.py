"""Acting accounts, and accounts with tokens."""

from __future__ import annotations

from collections.abc import Collection

from apps.accounts.models import User
from apps.accounts.services import account_create, token_create
from apps.common.actor import Actor, Role

PASSWORD = "correct horse battery staple"
ADMIN = Actor(name="ada", role=Role.ADMIN)
OPERATOR = Actor(name="olga", role=Role.OPERATOR)


def make_account(
    username: str = "olga", role: Role = Role.OPERATOR, groups: Collection[str] | None = None
) -> User:
    return account_create(acting=ADMIN, username=username, password=PASSWORD, role=role, groups=groups)


def make_token(role: Role = Role.OPERATOR, groups: Collection[str] | None = None) -> str:
    """The secret of a new token of a new account that has exactly this role."""
    username = f"{role}-{User.objects.count()}"
    make_account(username=username, role=role, groups=groups)
    return token_create(acting=ADMIN, username=username, name="test").secret
