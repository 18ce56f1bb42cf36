"""Passwords in URLs: what is shown or written down never has them."""

from __future__ import annotations

import re

HIDDEN = "••••"
_CREDENTIALS = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+(?=@)")


def without_password(text: str) -> str:
    """The text with the password of every URL in it hidden."""
    return _CREDENTIALS.sub(rf"\1:{HIDDEN}", text)
