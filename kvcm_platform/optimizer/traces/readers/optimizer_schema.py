"""KVCM's optimizer schema (WIRE.md F 7.2): reads, writes and turns in one file, told apart by their members.

With `total_keys` a record is a turn of a dialogue: it looks `keys` up and brings `total_keys`, at once. With
`query_type` or `block_mask` it is a read, with keys alone a write. Later versions say it by `type` (get,
write, request) and the time by `timestamp_ns`; both are read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from kvcm_platform.optimizer.trace import Event, TraceInstance
from kvcm_platform.optimizer.traces import members
from kvcm_platform.optimizer.traces.chained_keys import chain_tokens
from kvcm_platform.optimizer.traces.json_lines import json_objects
from kvcm_platform.optimizer.traces.source_lines import Lines
from kvcm_platform.optimizer.traces.source_request import NOT_BROUGHT, ReadOptions, SourceRequest

_KINDS = {"get": Event.READ, "write": Event.WRITE, "request": Event.TURN, "dialog_turn": Event.TURN}


def read_optimizer_schema(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
    def parse(number: int, record: dict[str, Any]) -> SourceRequest | None:
        return _request(number, record, options)

    for _, request in json_objects(lines, options.bad_lines, parse):
        if request is not None:
            yield request


def _request(number: int, record: dict[str, Any], options: ReadOptions) -> SourceRequest | None:
    event = _event(record)
    if (note := members.left_out_lookup(record)) and event is not Event.WRITE:
        options.notes[note] += 1
        return None
    instance, keys, tokens = _chain(record, options)
    total = members.block_keys(record.get("total_keys") or [], "total_keys")
    skip_n = 0 if event is Event.WRITE else members.skipped(record.get("block_mask"), len(keys))
    read_n = 0 if event is Event.WRITE else len(keys)
    if event is Event.TURN and total:
        read_n = _common(keys, total)
        if read_n < len(keys):
            options.notes[NOT_BROUGHT] += 1
        keys = total
    if not keys:
        options.notes["record without a full block left out"] += 1
        return None
    return SourceRequest(
        _at_us(record),
        keys,
        instance.instance_id,
        event,
        input_tokens=members.whole(record, "input_len", tokens),
        output_tokens=members.whole(record, "output_len", 0),
        skip_n=min(skip_n, read_n),
        read_n=read_n,
        session=members.text(record, "session_id", ""),
        type=members.text(record, "request_type", ""),
        number=number,
    )


def _event(record: dict[str, Any]) -> Event:
    kind = record.get("type")
    if kind is not None:
        if kind not in _KINDS:
            raise ValueError(f"type {kind!r:.40} is none of {', '.join(_KINDS)}")
        return _KINDS[kind]
    if record.get("total_keys"):
        return Event.TURN
    return Event.READ if "query_type" in record or "block_mask" in record else Event.WRITE


def _at_us(record: dict[str, Any]) -> int:
    if "timestamp_us" in record:
        return members.whole(record, "timestamp_us")
    return members.whole(record, "timestamp_ns") // 1000


def _chain(record: dict[str, Any], options: ReadOptions) -> tuple[TraceInstance, array[int], int]:
    name = members.text(record, "instance_id")
    keys = members.block_keys(record.get("keys") or [])
    tokens = members.token_ids(record.get("tokens") or [])
    length = len(tokens) or members.whole(record, "input_len", 0)
    guess = members.block_tokens_of(length, len(keys)) if keys and length else None
    instance = options.instance(name, block_tokens=guess)
    if not keys and tokens:
        keys = chain_tokens(tokens, instance.block_tokens)
    return instance, keys, length or len(keys) * instance.block_tokens


def _common(keys: array[int], total: array[int]) -> int:
    for position, (asked, brought) in enumerate(zip(keys, total, strict=False)):
        if asked != brought:
            return position
    return min(len(keys), len(total))
