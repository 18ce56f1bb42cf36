"""`manage.py bootstrap`: the first admin account, storage, group and schedules; safe to repeat."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from apps.control.services.bootstrap import bootstrap
from kvcm_platform.settings.env import Env


class Command(BaseCommand):
    help = "Make the first admin account, storage nfs_01, group default and the schedules where missing."

    def handle(self, *args: Any, **options: Any) -> None:
        login = bootstrap(env=Env())
        if login.password:
            self.stdout.write(f"Admin login: {login.username} / {login.password} (shown once; keep it)")
        elif login.is_new:
            self.stdout.write(
                f"Admin login: {login.username}, with the password given in KVCM_ADMIN_PASSWORD"
            )
