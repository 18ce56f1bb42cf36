"""`manage.py up`, listed here so that `manage.py help` knows it; manage.py itself takes the short way."""

from __future__ import annotations

import os
import sys

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Start the whole platform on this machine: every process, one supervisor."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--ephemeral", action="store_true", help="temporary data directory")
        parser.add_argument("--demo", action="store_true", help="add simulated engines that make real calls")

    def handle(self, *args: object, **options: bool) -> None:
        flags = [f"--{name}" for name in ("ephemeral", "demo") if options[name]]
        # A fresh interpreter: the supervisor is to hold no Django.
        os.execv(sys.executable, [sys.executable, "-m", "kvcm_platform.supervisor", *flags])  # noqa: S606
