"""Compiled readers and printers of the JSON form, for the messages that engines send call by call.

They are made from descriptors once and know the plain case alone: whatever else comes is `Unusual`, and
protobuf's own json_format decides about it. One difference stays: of a member that is given twice the last
counts, where json_format refuses the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

M = TypeVar("M", bound=Message)
Convert = Callable[[Any], Any]
_SMALL = frozenset((FieldDescriptor.TYPE_INT32,))
_LARGE = frozenset((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64))
_BEYOND = float(1 << 63)
_INTEGERS = _SMALL | _LARGE
_KINDS = _INTEGERS | {
    FieldDescriptor.TYPE_BOOL,
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_ENUM,
    FieldDescriptor.TYPE_MESSAGE,
}


class Unusual(Exception):
    """Not of the plain form: it may be right or wrong."""


class Reader:
    """Reads one kind of message. Integers may be numbers or strings, enums names or numbers."""

    def __init__(self, message_class: type[Message]) -> None:
        self._class = message_class
        self._members: dict[str, tuple[str, str, Convert]] = {}
        for field in cast(Descriptor, message_class.DESCRIPTOR).fields:
            _check_kind(field)
            oneof = field.containing_oneof.name if field.containing_oneof is not None else ""
            convert = _many(field) if field.is_repeated else _one(field)
            self._members[field.json_name] = self._members[field.name] = (field.name, oneof, convert)

    def read(self, body: bytes) -> Any:
        """Raises Unusual."""
        try:
            return self.message(orjson.loads(body))
        except (orjson.JSONDecodeError, TypeError, ValueError) as error:
            raise Unusual from error

    def message(self, value: Any) -> Any:
        if type(value) is not dict:
            raise Unusual
        members = self._members
        found: dict[str, Any] = {}
        oneofs: list[str] = []
        for name, item in value.items():
            known = members.get(name)
            if known is None:
                if name[:1] == "[":
                    raise Unusual  # the form of an extension's name
                continue
            field, oneof, convert = known
            if field in found:
                raise Unusual  # in both spellings
            if item is None:
                found[field] = None
                continue
            if oneof:
                if oneof in oneofs:
                    raise Unusual
                oneofs.append(oneof)
            found[field] = convert(item)
        return self._class(**found)


class Printer:
    """Prints one kind of message: every scalar, lists also when empty, what has presence only when set."""

    def __init__(self, message_class: type[Message]) -> None:
        self._value = _printer(cast(Descriptor, message_class.DESCRIPTOR))

    def print(self, message: Message) -> bytes:
        return orjson.dumps(self._value(message))


def _check_kind(field: FieldDescriptor) -> None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if field.type not in _KINDS or is_map or (field.enum_type is not None and field.enum_type.is_closed):
        raise TypeError(f"{field.full_name} is of a kind that has no compiled form")


def _message_type(field: FieldDescriptor) -> Descriptor:
    return cast(Descriptor, field.message_type)


def _enum_type(field: FieldDescriptor) -> EnumDescriptor:
    return cast(EnumDescriptor, field.enum_type)


# Reading.


def _one(field: FieldDescriptor) -> Convert:
    kind = field.type
    if kind == FieldDescriptor.TYPE_MESSAGE:
        return Reader(GetMessageClass(_message_type(field))).message
    if kind in _INTEGERS:
        return _integer
    if kind == FieldDescriptor.TYPE_ENUM:
        numbers = {value.name: value.number for value in _enum_type(field).values}
        return lambda value: _enum(numbers, value)
    expected: type = bool if kind == FieldDescriptor.TYPE_BOOL else str
    return lambda value: _plain(expected, value)


def _many(field: FieldDescriptor) -> Convert:
    kind = field.type
    if kind in _INTEGERS:
        return _integers
    if kind in (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_STRING):
        types: set[type] = {bool if kind == FieldDescriptor.TYPE_BOOL else str}
        return lambda values: _all_plain(types, values)
    convert = _one(field)
    return lambda values: [convert(value) for value in _list(values)]


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str and " " not in value:
        return int(value)
    # Some JSON knows floats alone; a number beyond 64 bits is read as one, too, but is none of these.
    if type(value) is float and value.is_integer() and abs(value) < _BEYOND:
        return int(value)
    raise Unusual


def _integers(values: Any) -> list[int]:
    types = set(map(type, _list(values)))
    if types <= {int}:
        return values  # type: ignore[no-any-return]
    if types == {str}:
        if " " in "".join(values):
            raise Unusual
        return list(map(int, values))
    return [_integer(value) for value in values]


def _enum(numbers: Mapping[str, int], value: Any) -> int:
    if type(value) is int:
        return value
    number = numbers.get(value) if type(value) is str else None
    if number is None:
        raise Unusual
    return number


def _plain(expected: type, value: Any) -> Any:
    if type(value) is not expected:
        raise Unusual
    return value


def _all_plain(types: set[type], values: Any) -> list[Any]:
    if not set(map(type, _list(values))) <= types:
        raise Unusual
    return values  # type: ignore[no-any-return]


def _list(values: Any) -> list[Any]:
    if type(values) is not list:
        raise Unusual
    return values


# Printing.


def _printer(descriptor: Descriptor) -> Convert:
    scalars: list[tuple[str, Convert | None]] = []
    lists: list[tuple[str, Convert | None]] = []
    present: list[tuple[str, Convert | None]] = []
    for field in descriptor.fields:
        _check_kind(field)
        into = lists if field.is_repeated else present if field.has_presence else scalars
        into.append((field.name, _print_one(field)))

    def value(message: Any) -> dict[str, Any]:
        printed: dict[str, Any] = {}
        for name, convert in scalars:
            item = getattr(message, name)
            printed[name] = item if convert is None else convert(item)
        for name, convert in lists:
            items = getattr(message, name)
            printed[name] = list(items) if convert is None else list(map(convert, items))
        for name, convert in present:
            if message.HasField(name):
                item = getattr(message, name)
                printed[name] = item if convert is None else convert(item)
        return printed

    return value


def _print_one(field: FieldDescriptor) -> Convert | None:
    """None where the value is printed as it is."""
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _printer(_message_type(field))
    if field.type == FieldDescriptor.TYPE_ENUM:
        names = {value.number: value.name for value in reversed(_enum_type(field).values)}
        return lambda number: names.get(number, number)
    return str if field.type in _LARGE else None
