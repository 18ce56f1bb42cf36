"""What keeps the platform from starting or from going on."""

from __future__ import annotations


class CannotStart(Exception):
    """The platform cannot start; the message is one sentence that an operator can act on."""


class KeepsDying(Exception):
    """A child died again and again without ever becoming ready."""

    def __init__(self, name: str, deaths: int, last_lines: list[str]) -> None:
        super().__init__(f"{name} died {deaths} times without becoming ready")
        self.name = name
        self.last_lines = last_lines
