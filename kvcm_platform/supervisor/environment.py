"""The environment that children get: everything the supervisor resolved, said explicitly."""

from __future__ import annotations

import os

from kvcm_platform.settings.env import KNOBS, Env

from .roster import ROOT

_FIRST_START_ONLY = "KVCM_ADMIN_PASSWORD"


def for_children(env: Env) -> dict[str, str]:
    """The supervisor's own environment plus the resolved variables.

    The admin's password is left out: it is for the first start alone, and a process's
    environment can be read by others of the same user.
    """
    inherited = {name: value for name, value in os.environ.items() if name != _FIRST_START_ONLY}
    resolved = {
        knob.name: str(env[knob.name])
        for knob in KNOBS
        if env[knob.name] != "" and knob.name != _FIRST_START_ONLY
    }
    return {
        "DJANGO_SETTINGS_MODULE": "kvcm_platform.settings.dev",
        **inherited,
        **resolved,
        "KVCM_DATA_DIR": str(env.data_dir),
        "KVCM_REDIS_URL": env.redis_url,
        "KVCM_NODE_ID": env.node_id,
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), inherited.get("PYTHONPATH")))),
    }
