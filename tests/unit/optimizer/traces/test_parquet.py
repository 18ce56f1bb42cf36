"""Parquet for exchange: what is saved and read again is the same trace; files of others are checked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kvcm_platform.optimizer.trace import Trace, TraceInstance
from kvcm_platform.optimizer.traces import TraceReadError, ingest, parquet
from kvcm_platform.optimizer.traces.parquet import save_parquet
from kvcm_platform.optimizer.traces.store import PATH_COLUMNS, REQUEST_COLUMNS

from .reading import read_lines, rows

T = 1_700_000_000_000_000


def made(count: int = 200) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    kinds = [{"query_type": "prefix_match", "block_mask": 1}, {}, {"total_keys": True}]
    records = []
    for n in range(count):
        keys = [int(key) for key in random.integers(-(2**63), 2**63, size=random.integers(1, 6))]
        record = {
            "instance_id": f"i{n % 3}",
            "timestamp_us": T + 7 * n,
            "keys": keys,
            "input_len": 16 * len(keys),
            "output_len": n,
            "session_id": f"s{n % 7}" if n % 2 else "",
            "request_type": "chat" if n % 5 else "",
            **kinds[n % 3],
        }
        if "total_keys" in record:
            record["total_keys"] = [*keys, 5]
        records.append(record)
    return records


def same(first: Trace, second: Trace) -> None:
    for name in (*REQUEST_COLUMNS, *PATH_COLUMNS, "offset", "path"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    for member in ("instances", "types", "start_us", "has_partial_blocks", "notes"):
        assert getattr(first.header, member) == getattr(second.header, member), member


def test_it_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several row groups and batches."""
    monkeypatch.setattr(parquet, "_GROUP_BLOCKS", 100)
    monkeypatch.setattr(parquet, "_BATCH_ROWS", 37)
    trace = read_lines(tmp_path, made(), block_bytes=4096)
    told: list[float] = []
    save_parquet(trace, tmp_path / "a.parquet", on_progress=told.append)
    assert told[-1] == 1.0
    same(trace, ingest(tmp_path / "a.parquet", tmp_path / "again"))
    assert not list(tmp_path.glob(".*"))
    assert pl.read_parquet(tmp_path / "a.parquet")["keys"].list.len().sum() == trace.blocks


def test_requests_without_blocks_come_back(tmp_path: Path) -> None:
    records = [
        {"timestamp": n, "input_length": 5, "output_length": 1, "hash_ids": [7] * (n % 2)} for n in range(5)
    ]
    trace = read_lines(tmp_path, records)
    save_parquet(trace, tmp_path / "a.parquet")
    same(trace, ingest(tmp_path / "a.parquet", tmp_path / "again"))


def test_one_namespace_of_many_instances(tmp_path: Path) -> None:
    records = [{"instance_id": f"i{n}", "timestamp_us": n, "keys": [1, 2]} for n in range(3)]
    trace = read_lines(tmp_path, records)
    assert trace.distinct_blocks == 6
    save_parquet(trace, tmp_path / "a.parquet")
    merged = ingest(tmp_path / "a.parquet", tmp_path / "one", one_namespace=True)
    assert merged.distinct_blocks == 2
    assert merged.header.instances == (TraceInstance("instance", 16),)


def test_files_of_others_have_defaults_and_any_order(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "at_us": [T + 5, T, T + 9],
            "keys": [[1, 2], [1], [1, 2, 3]],
            "session": ["b", "a", "b"],
            "input_tokens": [20, None, 48],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    trace = ingest(tmp_path / "a.parquet", tmp_path / "t", block_tokens=16)
    assert rows(trace) == [
        ("TURN", T, [1], 0, 1),
        ("TURN", T + 5, [1, 2], 0, 2),
        ("TURN", T + 9, [1, 2, 3], 0, 3),
    ]
    assert trace.session.tolist() == [0, 1, 1]
    assert trace.input_tokens.tolist() == [0, 20, 48]
    assert trace.header.instances == (TraceInstance("instance", 16),)


def test_unusable_rows_are_told_and_limited(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "at_us": [1, None, 3, 4, 5, 6],
            "keys": [[1], [1], None, [1, None], [1], [1]],
            "event": ["turn", "turn", "turn", "turn", "jump", "read"],
            "skip_n": [0, 0, 0, 0, 0, 2],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    trace = ingest(tmp_path / "a.parquet", tmp_path / "t")
    assert trace.requests == 1
    assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [
        (2, "at_us is missing or out of range"),
        (3, "keys are missing"),
        (4, "keys are missing"),
        (5, "event is none of turn, read, write"),
        (6, "skip_n and read_n do not fit the keys"),
    ]
    with pytest.raises(TraceReadError) as refused:
        ingest(tmp_path / "a.parquet", tmp_path / "u", max_bad_lines=4)
    assert refused.value.code == "too_many_bad_lines"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pl.DataFrame({"at_us": [1]}), "no column keys"),
        (pl.DataFrame({"keys": [[1]]}), "no column at_us"),
        (pl.DataFrame({"at_us": ["now"], "keys": [[1]]}), "conversion"),
        (pl.DataFrame({"at_us": [1], "keys": [1]}), "keys are Int64, not lists of numbers"),
        (pl.DataFrame({"at_us": [1], "keys": [[1.5]]}), "Float64"),
        (pl.DataFrame({"at_us": [1], "keys": [[{"a": 1}]]}), "Struct"),
    ],
)
def test_other_tables_are_refused(frame: pl.DataFrame, reason: str, tmp_path: Path) -> None:
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(TraceReadError, match=reason) as refused:
        ingest(tmp_path / "a.parquet", tmp_path / "t")
    assert refused.value.code == "unreadable"


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_dates_and_spans_are_times_whatever_their_unit(unit: Any, tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)]
    spans = [timedelta(seconds=2), timedelta(seconds=9)]
    for name, values in (
        ("a", pl.Series(moments, dtype=pl.Datetime(unit, "UTC"))),
        ("b", pl.Series(spans, dtype=pl.Duration(unit))),
        ("c", pl.Series(moments, dtype=pl.Datetime(unit, "UTC")).cast(pl.Date)),
    ):
        pl.DataFrame({"at_us": values, "keys": [[1], [2]]}).write_parquet(tmp_path / name)
    dates = ingest(tmp_path / "a", tmp_path / "ta")
    assert dates.header.start_us == moments[0].timestamp() * 1e6
    assert dates.at_us.tolist() == [0, 7_000_000]
    assert ingest(tmp_path / "b", tmp_path / "tb").at_us.tolist() == [2_000_000, 9_000_000]
    assert ingest(tmp_path / "c", tmp_path / "tc").header.start_us == dates.header.start_us


def test_keys_without_a_sign_are_the_same_bits_with_one(tmp_path: Path) -> None:
    keys = pl.Series([[2**64 - 1, 5], []], dtype=pl.List(pl.UInt64))
    pl.DataFrame({"at_us": [1, 2], "keys": keys}).write_parquet(tmp_path / "a")
    pairs = pl.Series([[2**63, 5]], dtype=pl.Array(pl.UInt64, 2))
    pl.DataFrame({"at_us": [1], "keys": pairs}).write_parquet(tmp_path / "b")
    assert [row[2] for row in rows(ingest(tmp_path / "a", tmp_path / "ta"))] == [[-1, 5], []]
    assert [row[2] for row in rows(ingest(tmp_path / "b", tmp_path / "tb"))] == [[-(2**63), 5]]


@pytest.mark.parametrize(
    "told", ["[" * 100_000, '{"kvcm_trace": 1}', json.dumps({"kvcm_trace": 1, "start_us": 2**70})]
)
def test_a_header_that_we_did_not_write_is_refused(told: str, tmp_path: Path) -> None:
    if "start_us" in told:
        save_parquet(read_lines(tmp_path, made(2)), tmp_path / "own")
        own = json.loads(pl.read_parquet_metadata(tmp_path / "own")["kvcm_trace"])
        told = json.dumps({**own, "start_us": 2**70})
    pl.DataFrame({"at_us": [1], "keys": [[1]]}).write_parquet(tmp_path / "a", metadata={"kvcm_trace": told})
    with pytest.raises(TraceReadError) as refused:
        ingest(tmp_path / "a", tmp_path / "t")
    assert refused.value.code == "unreadable"


def test_more_tokens_than_positions_can_be_summed_up_of_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"at_us": [1], "keys": [list(range(2049))]}).write_parquet(tmp_path / "a")
    with pytest.raises(TraceReadError, match="more than 2,147,483,648 tokens") as refused:
        ingest(tmp_path / "a", tmp_path / "t", block_tokens=1 << 20)
    assert refused.value.code == "too_large"
    assert ingest(tmp_path / "a", tmp_path / "t", block_tokens=1 << 19).blocks == 2049


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    save_parquet(read_lines(tmp_path, made()), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (whole[:200], whole[:50] + b"\0" * (len(whole) - 100) + whole[-50:]):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(TraceReadError) as refused:
            ingest(tmp_path / "a.parquet", tmp_path / "t")
        assert refused.value.code == "unreadable"
    assert not (tmp_path / "t").exists()


def test_its_limits(tmp_path: Path) -> None:
    trace = read_lines(tmp_path, made())
    save_parquet(trace, tmp_path / "a.parquet")
    for options, code in (
        ({"max_requests": 100}, "too_many_requests"),
        ({"max_bytes": trace.blocks * 8 - 1}, "too_large"),
    ):
        with pytest.raises(TraceReadError) as refused:
            ingest(tmp_path / "a.parquet", tmp_path / "t", **options)  # type: ignore[arg-type]
        assert refused.value.code == code
