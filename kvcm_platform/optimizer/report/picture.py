"""Curves as a PNG."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.core.errors import invalid

from .axis import capacity_axis
from .content import MOST_LINES, Line, Quota
from .palette import PALETTES, Scheme


def curves_png(
    lines: Sequence[Line],
    *,
    title: str = "Hit rate by capacity",
    block_bytes: float | None = None,
    quota: Quota | None = None,
    scheme: Scheme = Scheme.LIGHT,
    width: int = 1200,
    height: int = 720,
) -> bytes:
    """Hit rate by capacity (logarithmic), with the knee of the first line and the quota of today.

    The capacity is in bytes with blocks above, or in blocks alone where their size is not known. `width` and
    `height` in pixels, 400..4000. Raises DomainError where there is nothing to draw, too much, or no common
    unit.
    """
    for name, pixels in (("width", width), ("height", height)):
        if not 400 <= pixels <= 4000:
            raise invalid(name, "between 400 and 4000 pixels")
    if len(lines) > MOST_LINES:
        raise invalid("curves", f"at most {MOST_LINES} in one picture")
    axis = capacity_axis(lines, block_bytes=block_bytes, quota=quota)
    # On use: matplotlib takes a second to load, and most who import reports draw no picture.
    from .drawing import drawn_png

    return drawn_png(lines, axis, quota, PALETTES[scheme], title, (width, height))
