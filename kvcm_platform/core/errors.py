"""The errors of the domain and the one table that every door translates them with.

A rule that is broken raises `DomainError` with a stable code. The doors (gRPC, HTTP, REST,
tasks) never invent codes of their own; they look the code up in `CODES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Stable names of what can go wrong. REST prints them; the wire maps them to numbers."""

    UNSUPPORTED = "unsupported"
    INTERNAL = "internal_error"
    NOT_READY = "service_not_ready"
    INVALID_ARGUMENT = "invalid_argument"
    DUPLICATE = "duplicate_entity"
    CAPACITY = "reach_max_entity_capacity"
    INSTANCE_NOT_EXIST = "instance_not_exist"
    NOT_FOUND = "not_found"
    NOT_LEADER = "server_not_leader"
    IO_ERROR = "io_error"
    CONFLICT = "version_conflict"
    IN_USE = "in_use"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    TOO_LARGE = "request_too_large"
    TOO_MANY = "too_many_requests"


@dataclass(frozen=True, slots=True)
class CodeForms:
    """How one code looks at each door.

    `wire` is the number in `header.status.code` (WIRE.md B); `grpc` is the name of the gRPC
    status, "OK" wherever the application error travels in the header; `http` is the status of
    the compatible HTTP form; `rest` is the status of `/api/v1`.
    """

    wire: int
    grpc: str
    http: int
    rest: int


CODES: dict[Code, CodeForms] = {
    Code.UNSUPPORTED: CodeForms(2, "OK", 200, 400),
    Code.INTERNAL: CodeForms(3, "OK", 200, 500),
    Code.NOT_READY: CodeForms(4, "OK", 200, 503),
    Code.INVALID_ARGUMENT: CodeForms(5, "OK", 200, 400),
    Code.DUPLICATE: CodeForms(6, "OK", 200, 409),
    Code.CAPACITY: CodeForms(7, "OK", 200, 409),
    Code.INSTANCE_NOT_EXIST: CodeForms(8, "OK", 200, 404),
    Code.NOT_FOUND: CodeForms(3, "OK", 200, 404),
    Code.NOT_LEADER: CodeForms(9, "OK", 200, 503),
    Code.IO_ERROR: CodeForms(20, "OK", 200, 502),
    Code.CONFLICT: CodeForms(3, "OK", 200, 409),
    Code.IN_USE: CodeForms(3, "OK", 200, 409),
    Code.UNAUTHENTICATED: CodeForms(3, "UNAUTHENTICATED", 401, 401),
    Code.PERMISSION_DENIED: CodeForms(3, "PERMISSION_DENIED", 403, 403),
    Code.TOO_LARGE: CodeForms(3, "RESOURCE_EXHAUSTED", 413, 413),
    Code.TOO_MANY: CodeForms(3, "RESOURCE_EXHAUSTED", 413, 429),
}


class DomainError(Exception):
    """A request that cannot be carried out: a stable code, a sentence, and the field at fault."""

    def __init__(self, code: Code, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field

    @property
    def forms(self) -> CodeForms:
        return CODES[self.code]


def invalid(field: str, message: str) -> DomainError:
    """INVALID_ARGUMENT about `field`; the field's name opens the sentence."""
    return DomainError(Code.INVALID_ARGUMENT, f"{field}: {message}", field=field)
