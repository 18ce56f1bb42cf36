"""The token of memory pools' agents, for programs that have no `settings.env`: engines use transfers, too."""

from __future__ import annotations

import os


def pool_token() -> str:
    """KVCM_POOL_TOKEN; "" = agents are called without one."""
    return os.environ.get("KVCM_POOL_TOKEN", "")
