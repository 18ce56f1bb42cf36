"""Sizes in sentences for people."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def sized(count: int) -> str:
    """A number of bytes in the largest unit of which there is at least one, to three digits."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.4g} {_UNITS[unit]}" if size >= 1000 else f"{size:.3g} {_UNITS[unit]}"
