"""`manage.py create_token --username U --name N [--scope …]`: prints a new API token as its last word."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from apps.accounts.services import token_create
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import DomainError

_GROUP = "group:"


class Command(BaseCommand):
    help = "Make an API token for an account and print it once, as the last word of the output."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", required=True)
        parser.add_argument("--name", required=True, help="what the token is for; unique for the account")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            metavar="ROLE|group:NAME",
            help="a role (viewer, operator, admin, engine) or one instance group; may be repeated",
        )
        parser.add_argument("--expires-days", type=int, help="days until it expires; default: never")

    def handle(self, *args: Any, **options: Any) -> None:
        role, groups = _scope(options["scope"])
        days = options["expires_days"]
        try:
            made = token_create(
                acting=Actor.system("create_token"),
                username=options["username"],
                name=options["name"],
                role=role,
                groups=groups,
                expires_at=timezone.now() + timedelta(days=days) if days else None,
            )
        except DomainError as error:
            raise CommandError(error.message) from error
        except DatabaseError as error:
            name = settings.DATABASES["default"]["NAME"]
            raise CommandError(
                f"the database {name} is not ready ({error}); start the platform first, and set KVCM_DATA_DIR"
                " and DATABASE_URL as it has them"
            ) from error
        self.stdout.write(made.secret)


def _scope(words: list[str]) -> tuple[Role | None, list[str] | None]:
    groups = [word.removeprefix(_GROUP) for word in words if word.startswith(_GROUP)]
    roles = [word.removeprefix("role:") for word in words if not word.startswith(_GROUP)]
    if len(roles) > 1:
        raise CommandError("a token has one role at most")
    try:
        return (Role(roles[0]) if roles else None), groups or None
    except ValueError as error:
        raise CommandError(f"unknown role {roles[0]}; use one of {', '.join(Role)}") from error
