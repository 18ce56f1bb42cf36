"""Ties a child to the supervisor: when the supervisor dies, however, the kernel ends the child."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1

# Loaded in the parent: after the fork only async-signal-safe work should be left.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def tethered(death_signal: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn`. Elsewhere than on Linux it does nothing: only an orderly stop ends children there."""
    parent = os.getpid()

    def tie() -> None:
        if _libc is None:
            return
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        # The parent may have died before the call above; the signal would never come.
        if os.getppid() != parent:
            os._exit(1)

    return tie
