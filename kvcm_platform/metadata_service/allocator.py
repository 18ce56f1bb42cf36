"""Memory for large answers: glibc is asked to keep what is freed (mallopt(3))."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
LARGEST_BUFFER_BYTES = 32 << 20
KEPT_BYTES = 64 << 20


def keep_freed_memory() -> None:
    """For the whole process; other C libraries than glibc are left alone.

    By default buffers of an answer of some 100 kB may be given back to the kernel with each call and be
    faulted in again by the next: 60 page faults a call and 1.5 to 2.5 times the CPU were measured at 4096
    blocks, or none, by the luck of the heap.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, LARGEST_BUFFER_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
