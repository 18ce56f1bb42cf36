"""Brings the database up to date and makes the first objects; the supervisor runs it at each start."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand

from kvcm_platform.settings.env import Env


class Command(BaseCommand):
    help = "Migrate the database and run `bootstrap`; the last line printed is a JSON report."
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        is_first_start = not get_user_model().objects.exists()
        printed = StringIO()
        call_command("bootstrap", stdout=printed)
        # What bootstrap says may hold the password; the supervisor shows it, log files must not.
        report = {"username": Env()["KVCM_ADMIN_USERNAME"], "created": is_first_start}
        self.stdout.write(json.dumps(report))
