"""Header blocks of requests: from HPACK to the route, the deadline, or the refusal of a call.

Clients repeat themselves: the same bytes mean the same while the dynamic table stays, so whole blocks are
remembered. What differs call by call is often a literal without indexing behind a run of indexed fields: that
run is remembered too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.table import HeaderTable

from ...control_link import INTERNAL_KEY
from . import answers
from .frames import ConnectionFault, ErrorCode
from .limits import Limits
from .messages import Status, timeout_seconds

MOST_REMEMBERED = 256
LONGEST_REMEMBERED = 1024
FIELD_OVERHEAD_BYTES = 32
"""What a field counts on top of its name and value (RFC 9113, 6.5.2)."""
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_CONNECTION_FIELDS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_REQUIRED_PSEUDO = (b":method", b":scheme", b":path")
_CREDENTIALS = (b"authorization", INTERNAL_KEY.encode())
_KEPT = frozenset((b"content-type", b"content-length", b"grpc-timeout", b"grpc-encoding", *_CREDENTIALS))
_CONTENT_TYPE = re.compile(rb"application/grpc(?:$|[+; ])")
_TIMEOUT_NAME = b"grpc-timeout"


@dataclass(frozen=True, slots=True)
class Head:
    """What the headers of a request say. `refusal` is an encoded answer; `malformed` a reason to reset."""

    route: Any = None
    timeout: float | None = None
    credentials: tuple[str, str] = ("", "")
    """The headers that `Caller` takes: authorization, and control's own."""
    is_conversation: bool = False
    """The route answers message by message (conversations.py)."""
    is_gzip: bool = False
    content_length: int | None = None
    refusal: bytes | None = None
    is_grpc: bool = True
    """False if plain HTTP was spoken: the refusal is an HTTP status."""
    malformed: str = ""


class _CountedTable(HeaderTable):
    """A dynamic table that counts what was added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.added = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.added += 1
        super().add(name, value)

    def state(self) -> tuple[int, int]:
        """Equal only while every index means the same: what is not added to can but lose entries."""
        return self.added, len(self.dynamic_entries)


class HeadReader:
    """Of one connection: its blocks must all pass here, in order, also those of refused calls."""

    def __init__(self, routes: Mapping[bytes, Any], limits: Limits) -> None:
        self._routes = routes
        self._most_list_bytes = limits.max_header_list_bytes
        self._decoder = Decoder(limits.hard_header_list_bytes)
        self._table = self._decoder.header_table = _CountedTable()
        self._blocks: dict[bytes, Head] = {}
        self._runs: dict[bytes, Head | None] = {}
        self._names: dict[bytes, str] = {}
        self._is_unchanged = True

    def read(self, block: bytes) -> Head:
        """The head of a request. Raises ConnectionFault where the table can no longer be trusted."""
        head = self._blocks.get(block)
        if head is None:
            is_short = len(block) <= LONGEST_REMEMBERED
            if is_short:
                head = self._from_run(block)
                if head is not None:
                    return head
            head = self._head(self._fields(block))
            # A block that sets the table's size must be decoded every time.
            if is_short and self._is_unchanged and block[:1] and block[0] & 0xE0 != 0x20:
                self._remember(block, head)
        return head

    def read_trailers(self, block: bytes) -> bool:
        """Decodes trailers of a request; False if they are malformed (RFC 9113, 8.1)."""
        fields = self._fields(block)
        return not any(name.startswith(b":") or not _NAME.fullmatch(name) for name, _ in fields)

    def _fields(self, block: bytes) -> list[tuple[bytes, bytes]]:
        if _size_updates(block) > 2:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "too many table size updates")
        before = self._table.state()
        try:
            fields = [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from error
        except (HPACKError, IndexError, ValueError) as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        self._is_unchanged = self._table.state() == before
        if not self._is_unchanged:
            self._blocks.clear()
            self._runs.clear()
        return fields

    def _head(self, fields: list[tuple[bytes, bytes]]) -> Head:
        kept: dict[bytes, bytes] = {}
        if reason := _malformed(fields, kept):
            return Head(malformed=reason)
        authorization, internal = (
            kept.get(name, b"").decode("ascii", "backslashreplace") for name in _CREDENTIALS
        )
        head = Head(credentials=(authorization, internal))
        size = sum(len(name) + len(value) + FIELD_OVERHEAD_BYTES for name, value in fields)
        if size > self._most_list_bytes:
            text = f"the headers are larger than {self._most_list_bytes} bytes (KVCM_MAX_HEADER_KB)"
            return replace(head, refusal=answers.trailers_only(Status.RESOURCE_EXHAUSTED, text))
        if kept[b":method"] != b"POST":
            return replace(head, refusal=answers.METHOD_NOT_ALLOWED, is_grpc=False)
        if not _CONTENT_TYPE.match(kept.get(b"content-type", b"")):
            return replace(head, refusal=answers.UNSUPPORTED_MEDIA_TYPE, is_grpc=False)
        if b"content-length" in kept:
            length = kept[b"content-length"]
            if not length.isdigit() or len(length) > 10:
                return Head(malformed="content-length is no number")
            head = replace(head, content_length=int(length))
        if _TIMEOUT_NAME in kept:
            head = _with_timeout(head, kept[_TIMEOUT_NAME])
            if head.refusal is not None:
                return head
        path = kept[b":path"]
        route = self._routes.get(path)
        head = replace(head, route=route, is_conversation=hasattr(route, "reply"))
        if head.route is None:
            text = f"{path[:200].decode('latin-1')} is not served here"
            return replace(head, refusal=answers.trailers_only(Status.UNIMPLEMENTED, text))
        encoding = kept.get(b"grpc-encoding", b"identity")
        if encoding not in (b"identity", b"gzip"):
            return replace(head, refusal=answers.unknown_encoding(encoding[:100].decode("latin-1")))
        return replace(head, is_gzip=encoding == b"gzip")

    def _remember(self, block: bytes, head: Head) -> None:
        if len(self._blocks) >= MOST_REMEMBERED:
            self._blocks.clear()
        if len(self._runs) >= MOST_REMEMBERED:
            self._runs.clear()
        self._blocks[block] = head
        run = block[: _run_bytes(block)]
        if run and run not in self._runs:
            alone = self._head(self._fields(run))
            self._runs[run] = None if alone.malformed or alone.refusal is not None else alone

    def _from_run(self, block: bytes) -> Head | None:
        """The head of a known run of indexed fields and literals that neither change the table nor the call.

        One-byte lengths and names only: whatever is longer takes the whole way (RFC 7541, 6.2.2 and 6.2.3).
        """
        at = _run_bytes(block)
        head = self._runs.get(block[:at])
        if head is None:
            return None
        end = len(block)
        try:
            while at < end:
                first = block[at]
                if first >= 0x20:
                    return None
                index = first & 0x0F
                if index == 0x0F:
                    return None
                if index:
                    key = block[at : at + 1]
                    at += 1
                else:
                    length = block[at + 1]
                    if length & 0x7F == 0x7F:
                        return None
                    key = block[at + 1 : at + 2 + (length & 0x7F)]
                    at += 2 + (length & 0x7F)
                kind = self._names.get(key) or self._classify(key)
                length = block[at]
                if kind == "whole" or length & 0x7F == 0x7F:
                    return None
                stop = at + 1 + (length & 0x7F)
                if stop > end:
                    return None
                if kind == "timeout":
                    # Huffman-coded digits are rare: the whole way knows how.
                    if length & 0x80 or head.timeout is not None:
                        return None
                    head = _with_timeout(head, block[at + 1 : stop])
                at = stop
        except IndexError:
            return None
        return None if head.refusal is not None else head

    def _classify(self, key: bytes) -> str:
        """Whether a literal of this encoded name may be passed over; the static table's names do not move."""
        if len(key) == 1:
            name = HeaderTable.STATIC_TABLE[(key[0] & 0x0F) - 1][0]
        else:
            try:
                name = bytes(next(iter(Decoder().decode(b"\x00" + key + b"\x00", raw=True)))[0])
            except HPACKError:
                return "whole"
        if name == _TIMEOUT_NAME:
            kind = "timeout"
        elif name in _KEPT or name == b"te" or name in _CONNECTION_FIELDS or not _NAME.fullmatch(name):
            kind = "whole"
        else:
            kind = "passed over"
        if len(self._names) >= MOST_REMEMBERED:
            self._names.clear()
        self._names[key] = kind
        return kind


def _with_timeout(head: Head, value: bytes) -> Head:
    timeout = timeout_seconds(value)
    if timeout is None:
        return replace(head, refusal=answers.trailers_only(Status.INTERNAL, "malformed grpc-timeout"))
    return replace(head, timeout=timeout)


def _run_bytes(block: bytes) -> int:
    """How many one-byte indexed fields a block begins with."""
    at = 0
    for byte in block:
        if not 0x80 < byte < 0xFF:
            break
        at += 1
    return at


def _size_updates(block: bytes) -> int:
    """How many table size updates a block begins with; at most two make sense (RFC 7541, 4.2)."""
    count = at = 0
    while at < len(block) and block[at] & 0xE0 == 0x20 and count <= 2:
        count += 1
        if block[at] & 0x1F == 0x1F:
            at += 1
            while at < len(block) and block[at] & 0x80:
                at += 1
        at += 1
    return count


def _malformed(fields: Iterable[tuple[bytes, bytes]], kept: dict[bytes, bytes]) -> str:
    """Fills `kept` with the fields that matter; says what makes a request malformed (RFC 9113, 8.2, 8.3)."""
    is_regular = False
    for name, value in fields:
        if name[:1] == b":":
            if is_regular:
                return "a pseudo-header follows a regular one"
            if name not in _PSEUDO or name in kept:
                return "an unknown or repeated pseudo-header"
            kept[name] = value
        else:
            is_regular = True
            if not _NAME.fullmatch(name):
                return "a bad header name"
            if name in _CONNECTION_FIELDS or (name == b"te" and value != b"trailers"):
                return "a header of the connection"
            if name in _KEPT:
                if name in kept and kept[name] != value:
                    return f"{name.decode()} is repeated"
                kept[name] = value
        if _BAD_VALUE.search(value):
            return "a bad header value"
    if any(not kept.get(name) for name in _REQUIRED_PSEUDO):
        return "a pseudo-header is missing"
    return ""
