"""How calls fail."""

from __future__ import annotations


class KvcmError(Exception):
    """The server answered, and the answer is a refusal. `code` is the protocol's name of it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class TransportError(KvcmError):
    """No usable answer came. `code` is the gRPC status: UNAVAILABLE, DEADLINE_EXCEEDED,
    UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED, …
    """
