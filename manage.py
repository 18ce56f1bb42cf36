#!/usr/bin/env python
"""Command line of the platform: `manage.py up`, `migrate`, `bootstrap`, `create_token`, …"""

import os
import sys

if __name__ == "__main__":
    if sys.argv[1:2] == ["up"] and not {"-h", "--help"} & set(sys.argv):
        # The supervisor holds no Django: it must stay small and outlive every other process.
        os.execv(sys.executable, [sys.executable, "-m", "kvcm_platform.supervisor", *sys.argv[2:]])  # noqa: S606
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvcm_platform.settings.dev")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
