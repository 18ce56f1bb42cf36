"""The JSON form of the protocol's messages (WIRE.md 1.3), as existing HTTP clients speak it."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


class BadJson(ValueError):
    """The body is not the JSON form of the message; the HTTP door answers 400 and `{}`."""


def parse(message_class: type[M], body: bytes) -> M:
    """Unknown members and unknown enum names are ignored; both spellings of names are accepted."""
    if body.lstrip()[:1] != b"{":
        raise BadJson("the body is not a JSON object")
    try:
        return json_format.Parse(body, message_class(), ignore_unknown_fields=True, max_recursion_depth=32)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson(str(error)) from error


def print_message(message: Message) -> bytes:
    """Proto names, defaults and empty lists printed, 64-bit integers as strings, enums by name."""
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
