"""The JSON form of the protocol's messages (WIRE.md 1.3), as existing HTTP clients speak it."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.pb import meta_service_pb2 as pb

from .json_plans import Printer, Reader, Unusual

M = TypeVar("M", bound=Message)
MOST_UNUSUAL = 1 << 20
"""Values of a body that json_format reads, at 3 us each."""

_READERS: dict[type[Message], Reader] = {
    message: Reader(message)
    for message in (
        pb.GetCacheLocationRequest,
        pb.GetCacheLocationLenRequest,
        pb.GetCacheMetaRequest,
        pb.StartWriteCacheRequest,
        pb.FinishWriteCacheRequest,
        pb.RemoveCacheRequest,
    )
}
_PRINTERS: dict[type[Message], Printer] = {
    message: Printer(message)
    for message in (
        pb.GetCacheLocationResponse,
        pb.GetCacheLocationLenResponse,
        pb.GetCacheMetaResponse,
        pb.StartWriteCacheResponse,
        pb.CommonResponse,
    )
}


class BadJson(ValueError):
    """The body is not the JSON form of the message; the HTTP door answers 400 and `{}`."""


def parse(message_class: type[M], body: bytes) -> M:
    """Unknown members and unknown enum names are ignored; both spellings of names are accepted."""
    reader = _READERS.get(message_class)
    if reader is not None:
        try:
            return reader.read(body)  # type: ignore[no-any-return]
        except Unusual:
            pass
    return parse_any(message_class, body)


def parse_any(message_class: type[M], body: bytes) -> M:
    """The same by protobuf's json_format: slower, and it decides what is right.

    Raises TOO_LARGE for what would take it seconds.
    """
    if body.count(b",") > MOST_UNUSUAL:
        text = f"more than {MOST_UNUSUAL} values, and not all are of the usual form (integers as numbers)"
        raise DomainError(Code.TOO_LARGE, text)
    if body.lstrip()[:1] != b"{":
        raise BadJson("the body is not a JSON object")
    try:
        return json_format.Parse(body, message_class(), ignore_unknown_fields=True, max_recursion_depth=32)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson(str(error)) from error


def print_message(message: Message) -> bytes:
    """Proto names, defaults and empty lists printed, 64-bit integers as strings, enums by name."""
    printer = _PRINTERS.get(type(message))
    return print_any(message) if printer is None else printer.print(message)


def print_any(message: Message) -> bytes:
    """The same by protobuf's json_format."""
    return json_format.MessageToJson(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
        indent=None,
        ensure_ascii=False,
    ).encode()


def plain(value: dict[str, Any]) -> bytes:
    """JSON that is no message: the body of an HTTP error."""
    return json.dumps(value, ensure_ascii=False).encode()
