"""`manage.py control_service`: AdminService over gRPC and HTTP, and the duties of the control plane."""

from __future__ import annotations

from typing import Any

import uvloop
from django.core.management.base import BaseCommand, CommandError

from apps.control.process import run_until_signal
from kvcm_platform.settings.env import Env


class Command(BaseCommand):
    help = "Run the control process: AdminService, reconciliation of the registry, background duties."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            uvloop.run(run_until_signal(Env()))
        except (OSError, RuntimeError) as error:
            raise CommandError(f"control service cannot run: {error}") from error
