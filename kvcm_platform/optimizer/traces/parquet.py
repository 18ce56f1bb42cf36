"""Traces as Parquet, for exchange: one row a request, with the keys of its blocks.

Columns: `at_us` (since the start), `event` (turn, read, write), `instance`, `type`, `session`,
`input_tokens`, `output_tokens`, `skip_n`, `read_n`, `keys` (a list of int64, one a block). `at_us` and
`keys` must be there, the others have defaults. Our own files carry the trace's header under `kvcm_trace`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.trace import Event, Trace, TraceHeader

from .errors import TraceReadError, writable_as_a_whole
from .header import header_from_json, header_to_json
from .progress import Throttle
from .request_columns import MAX_PROMPT_TOKENS, MOST_US, RequestColumns, session_hash
from .source_request import ONE_INSTANCE, ReadOptions

HEADER_MEMBER = "kvcm_trace"
_SCHEMA: dict[str, Any] = {
    "at_us": pl.Int64,
    "event": pl.String,
    "instance": pl.String,
    "type": pl.String,
    "session": pl.Int32,
    "input_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "skip_n": pl.Int32,
    "read_n": pl.Int32,
    "keys": pl.List(pl.Int64),
}
_GROUP_BLOCKS = 1 << 20
"""Blocks of a row group, about: 8 MiB."""
_BATCH_ROWS = 1 << 14
_EVENTS = [event.name.lower() for event in Event]
_WRONG: dict[str, pl.Expr] = {
    "at_us is missing or out of range": ~pl.col("at_us").is_between(-MOST_US, MOST_US).fill_null(False),
    f"event is none of {', '.join(_EVENTS)}": ~pl.col("event").is_in(_EVENTS),
    "skip_n and read_n do not fit the keys": ~(
        (pl.col("skip_n") >= 0)
        & (pl.col("skip_n") <= pl.col("read_n"))
        & (pl.col("read_n") <= pl.col("length"))
    ),
    "tokens are negative": (pl.col("input_tokens") < 0) | (pl.col("output_tokens") < 0),
}
"""What may be wrong with a row, besides its keys."""


def save_parquet(trace: Trace, path: Path | str, *, on_progress: Progress | None = None) -> None:
    """Writes a trace, row group by row group; the file appears under its name when it is whole.

    Raises TraceReadError bad_option for what is no regular file, OSError, and what `on_progress` raises.
    """
    path = writable_as_a_whole(Path(path), "parquet")
    partial = path.with_name(f".{path.name}.{token_hex(6)}.part")
    rows = max(1, min(1 << 16, _GROUP_BLOCKS * trace.requests // max(1, trace.blocks)))
    tell = Throttle(on_progress)

    def frames(_columns: Any, _predicate: Any, _rows: Any, _batch: Any) -> Iterator[pl.DataFrame]:
        for begin in range(0, trace.requests, rows):
            yield _frame(trace, begin, min(trace.requests, begin + rows))
            tell(begin / trace.requests)

    header = json.dumps(header_to_json(trace.header))
    try:
        register_io_source(frames, schema=_SCHEMA).sink_parquet(
            partial, row_group_size=rows, metadata={HEADER_MEMBER: header}
        )
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    if on_progress is not None:
        on_progress(1.0)


def _frame(trace: Trace, begin: int, end: int) -> pl.DataFrame:
    header = trace.header
    offset = np.asarray(trace.offset[begin : end + 1])
    paths = np.asarray(trace.path[offset[0] : offset[-1]])
    session = pl.Series(np.asarray(trace.session[begin:end]))
    columns = {
        "at_us": np.asarray(trace.at_us[begin:end]),
        "event": _names(_EVENTS, trace.event[begin:end]),
        "instance": _names(
            [instance.instance_id for instance in header.instances], trace.instance[begin:end]
        ),
        "type": _names(list(header.types), trace.type[begin:end]),
        "session": pl.select(pl.when(session >= 0).then(session)).to_series(),
        "input_tokens": np.asarray(trace.input_tokens[begin:end]),
        "output_tokens": np.asarray(trace.output_tokens[begin:end]),
        "skip_n": np.asarray(trace.skip_n[begin:end]),
        "read_n": np.asarray(trace.read_n[begin:end]),
        "keys": _lists(np.asarray(trace.key)[paths], np.diff(offset)),
    }
    return pl.DataFrame(columns, schema=_SCHEMA)


def _names(names: list[str], numbers: Any) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(pl.Series(np.asarray(numbers).astype(np.uint32)))


def _lists(values: Any, lengths: Any) -> pl.Series:
    """A list a row, empty ones too."""
    rows = np.arange(len(lengths), dtype=np.uint32)
    filled = (
        pl.DataFrame({"row": np.repeat(rows, lengths), "keys": values})
        .group_by("row", maintain_order=True)
        .agg("keys")
    )
    frame = pl.DataFrame({"row": rows}).join(filled, on="row", how="left", maintain_order="left")
    return frame["keys"].fill_null(pl.Series([[]], dtype=pl.List(pl.Int64)))


class ParquetSource:
    """A Parquet file of a trace. Raises TraceReadError unreadable for what is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._scan = pl.scan_parquet(path, glob=False)
            self._given = self._scan.collect_schema()
            self.rows = int(self._scan.select(pl.len()).collect().item())
            told = pl.read_parquet_metadata(path).get(HEADER_MEMBER)
            self.header = header_from_json(json.loads(told)) if told else None
        except (pl.exceptions.PolarsError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise TraceReadError("unreadable", f"{path.name} is no Parquet of a trace: {error}") from error
        for name in ("at_us", "keys"):
            if name not in self._given:
                raise TraceReadError("unreadable", f"{path.name} has no column {name}", field=name)
        inner = _inner(self._given["keys"])
        if inner is None or not (inner.is_integer() or inner == pl.String):
            kind = self._given["keys"]
            raise TraceReadError(
                "unreadable", f"{path.name}: keys are {kind}, not lists of numbers", field="keys"
            )

    def read(
        self,
        columns: RequestColumns,
        options: ReadOptions,
        *,
        one_namespace: bool,
        max_requests: int,
        max_bytes: int | None,
        tell: Throttle,
    ) -> None:
        """Appends all rows; unusable ones are told with their number, counted from 1."""
        if self.header is not None:
            _number_as(self.header, columns, options, one_namespace=one_namespace)
        done = 0
        try:
            for frame in self._scan.select(self._columns()).collect_batches(
                chunk_size=_BATCH_ROWS, maintain_order=True
            ):
                good = _usable(frame, done, options)
                if columns.requests + len(good) > max_requests:
                    raise TraceReadError("too_many_requests", f"more than {max_requests:,} requests")
                _append(good, columns, options, self.header, one_namespace)
                if max_bytes is not None and 8 * columns.blocks > max_bytes:
                    raise TraceReadError(
                        "too_large", f"the unpacked trace is larger than {max_bytes:,} bytes"
                    )
                done += len(frame)
                tell(done / max(1, self.rows))
        except pl.exceptions.PolarsError as error:
            raise TraceReadError(
                "unreadable", f"{self._path.name} from row {done + 1} on: {error}"
            ) from error

    def _columns(self) -> list[pl.Expr]:
        defaults = {"event": "turn", "instance": ONE_INSTANCE, "type": ""}
        found = []
        for name, kind in _SCHEMA.items():
            if name not in self._given:
                default = defaults.get(name, None if name in ("session", "read_n") else 0)
                found.append(pl.lit(default, dtype=kind).alias(name))
            elif name == "session" and self._given[name] == pl.String:
                found.append(pl.col(name))
            else:
                value = _plain(name, self._given[name]).cast(kind, strict=True)
                found.append(
                    value
                    if name in ("session", "read_n", "keys", "at_us")
                    else value.fill_null(defaults.get(name, 0))
                )
        return found


def _inner(kind: pl.DataType) -> pl.DataType | None:
    """Of a list, what is in it."""
    return getattr(kind, "inner", None)


def _plain(name: str, kind: pl.DataType) -> pl.Expr:
    """A column as numbers: keys of 64 bits without a sign get one, times are microseconds."""
    column = pl.col(name)
    if name == "keys" and _inner(kind) == pl.UInt64:
        lists = column.arr.to_list() if isinstance(kind, pl.Array) else column
        return lists.list.eval(pl.element().reinterpret(signed=True))
    if isinstance(kind, pl.Datetime | pl.Duration):
        return column.dt.cast_time_unit("us")
    if kind == pl.Date:
        return column.cast(pl.Datetime("us"))
    return column


def _usable(frame: pl.DataFrame, done: int, options: ReadOptions) -> pl.DataFrame:
    length = pl.col("keys").list.len().cast(pl.Int32)
    frame = frame.with_columns(pl.col("read_n").fill_null(length), length.alias("length"))
    # Nearly always all is well: then nothing is looked at row by row.
    has_nulls = frame["keys"].explode(empty_as_null=False).null_count() > 0
    if not has_nulls and not frame.select(pl.any_horizontal(*_WRONG.values()).any()).item():
        return frame
    missing = pl.col("keys").is_null() | pl.col("keys").list.contains(None)
    wrong = [pl.when(check).then(pl.lit(text)) for text, check in _WRONG.items()]
    reason = pl.coalesce(pl.when(missing).then(pl.lit("keys are missing")), *wrong)
    frame = frame.with_row_index("row").with_columns(reason.alias("reason"))
    bad = frame.filter(pl.col("reason").is_not_null()).select("row", "reason")
    for row, text in bad.iter_rows():
        options.bad_lines.add(done + row + 1, text)
    return frame.filter(pl.col("reason").is_null())


def _append(
    frame: pl.DataFrame,
    columns: RequestColumns,
    options: ReadOptions,
    header: TraceHeader | None,
    one_namespace: bool,
) -> None:
    instances = frame["instance"]
    for name in instances.unique(maintain_order=True):
        options.instance(name)
    if one_namespace:
        instances = pl.Series([ONE_INSTANCE]).new_from_index(0, len(frame))
    start_us = header.start_us if header is not None else 0
    _check_tokens(frame, options)
    columns.append_many(
        {
            "at_us": frame["at_us"].to_numpy() + start_us,
            "event": _numbers(frame["event"], {name: k for k, name in enumerate(_EVENTS)}),
            "instance": _numbers(instances, columns.instances.numbers(instances.unique(maintain_order=True))),
            "type": _numbers(frame["type"], columns.types.numbers(frame["type"].unique(maintain_order=True))),
            **{
                name: frame[name].to_numpy() for name in ("input_tokens", "output_tokens", "skip_n", "read_n")
            },
        },
        _session_hashes(frame["session"]),
        frame["length"].to_numpy(),
        frame["keys"].explode(empty_as_null=False).to_numpy(),
    )


def _check_tokens(frame: pl.DataFrame, options: ReadOptions) -> None:
    most = MAX_PROMPT_TOKENS // max(one.block_tokens for one in options.instances.values())
    long = frame.filter(pl.col("length") > most)
    for name, length in long.select("instance", "length").iter_rows():
        if length * options.instances[name].block_tokens > MAX_PROMPT_TOKENS:
            told = f"a request has more than {MAX_PROMPT_TOKENS:,} tokens in its blocks"
            raise TraceReadError("too_large", told)


def _numbers(names: pl.Series, numbers: dict[str, int]) -> Any:
    return names.replace_strict(numbers, return_dtype=pl.Int32).to_numpy()


def _session_hashes(sessions: pl.Series) -> Any:
    if sessions.dtype == pl.String:
        return np.array([session_hash(name or "") for name in sessions], dtype=np.int64)
    return (sessions.cast(pl.Int64) + 1).fill_null(0).to_numpy()


def _number_as(
    header: TraceHeader, columns: RequestColumns, options: ReadOptions, *, one_namespace: bool
) -> None:
    """Instances and types get the numbers that they had in the trace that was saved."""
    for instance in header.instances:
        options.instance(
            instance.instance_id,
            block_tokens=instance.block_tokens,
            block_bytes=instance.block_bytes,
            group=instance.group,
        )
    names = [ONE_INSTANCE] if one_namespace else [known.instance_id for known in header.instances]
    columns.instances.numbers(names)
    columns.types.numbers(header.types)
