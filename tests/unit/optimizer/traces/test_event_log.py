"""The publisher event log and our own capture, by the rules of WIRE.md 6.5 and F 7.2."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from kvcm_platform.core.block_keys import chained_block_keys
from kvcm_platform.index.capture_files import CapturedInstance, header_line, lines_of
from kvcm_platform.index.request_entries import FINISH, QUERY, START, CapturedEvents
from kvcm_platform.optimizer.trace import TraceInstance
from kvcm_platform.optimizer.traces import ingest
from kvcm_platform.optimizer.traces.lookups import Lookups
from kvcm_platform.optimizer.traces.readers import event_log
from kvcm_platform.optimizer.traces.source_request import SourceRequest

from .naive_paths import check_paths
from .reading import read_lines, rows

T = 1_700_000_000_000_000


def get(at: int, keys: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "0" * 32,
        "source": "qwen",
        "component": "cache_manager",
        "type": "GetCacheLocation",
        "trigger_time_us": T + at,
        "query_type": "prefix_match",
        "keys": keys,
        "tokens": [],
        "block_mask": 0,
        "sw_size": -1,
        "location_spec_names": [],
        **more,
    }


def start(at: int, keys: list[Any], session: str, **more: Any) -> dict[str, Any]:
    return {
        "source": "qwen",
        "type": "StartWriteCache",
        "trigger_time_us": T + at,
        "write_session_id": session,
        "keys": keys,
        "tokens": [],
        "block_mask": 0,
        "write_timeout_seconds": 30,
        **more,
    }


def finish(at: int, session: str, **more: Any) -> dict[str, Any]:
    return {
        "source": "qwen",
        "type": "FinishWriteCache",
        "trigger_time_us": T + at,
        "write_session_id": session,
        **more,
    }


class TestReadsAndWrites:
    def test_a_write_takes_effect_when_it_is_finished(self, tmp_path: Path) -> None:
        trace = read_lines(
            tmp_path,
            [get(0, [1, 2]), start(10, [1, 2], "a"), get(20, [1, 2]), finish(30, "a"), get(40, [1, 2])],
        )
        assert rows(trace) == [
            ("READ", T, [1, 2], 0, 2),
            ("READ", T + 20, [1, 2], 0, 2),
            ("WRITE", T + 30, [1, 2], 0, 0),
            ("READ", T + 40, [1, 2], 0, 2),
        ]
        assert trace.header.format == "publisher_log"
        check_paths(trace)

    def test_an_unfinished_write_counts_100_ms_after_its_start(self, tmp_path: Path) -> None:
        trace = read_lines(tmp_path, [start(10, [1, 2], "a"), get(99_000, [1]), get(101_000, [1])])
        assert [(kind, at - T) for kind, at, *_ in rows(trace)] == [
            ("READ", 99_000),
            ("WRITE", 100_010),
            ("READ", 101_000),
        ]

    def test_one_that_is_started_again_is_two(self, tmp_path: Path) -> None:
        trace = read_lines(tmp_path, [start(0, [1], "a"), start(5, [2], "a"), finish(7, "a")])
        assert [(at - T, keys) for _, at, keys, *_ in rows(trace)] == [(7, [2]), (100_000, [1])]

    def test_sessions_belong_to_their_instance(self, tmp_path: Path) -> None:
        log = [start(0, [1], "a"), start(1, [2], "a", source="llama"), finish(2, "a", source="llama")]
        trace = read_lines(tmp_path, log)
        assert [(at - T, keys) for _, at, keys, *_ in rows(trace)] == [(2, [2]), (100_000, [1])]
        assert [i.instance_id for i in trace.header.instances] == ["llama", "qwen"]

    @pytest.mark.parametrize(
        ("present", "success", "written"),
        [
            (0, None, [1, 2, 3, 4]),
            (0, [True, True, False, True], [1, 2]),
            (2, [True, False], [1, 2, 3]),
            ([True, False, True, False], [True, False], [1, 2, 3]),
            (0, 3, [1, 2, 3]),
            (1, [True] * 3, [1, 2, 3, 4]),
        ],
    )
    def test_blocks_behind_a_failed_one_are_out_of_reach(
        self, present: Any, success: Any, written: list[int], tmp_path: Path
    ) -> None:
        log = [start(0, [1, 2, 3, 4], "a", block_mask=present), finish(9, "a", success_block=success)]
        ((_, _, keys, _, _),) = rows(read_lines(tmp_path, log))
        assert keys == written

    def test_what_failed_from_the_first_block_on_is_no_write(self, tmp_path: Path) -> None:
        log = [get(0, [1]), start(1, [1, 2], "a"), finish(9, "a", success_block=[False, True])]
        trace = read_lines(tmp_path, log)
        assert [kind for kind, *_ in rows(trace)] == ["READ"]
        assert trace.header.notes == (
            "1 x blocks of 16 tokens assumed: the trace does not say it",
            "1 x write of which no prefix succeeded left out",
        )

    @pytest.mark.parametrize(
        ("mask", "skip_n"),
        [(0, 0), (2, 2), (9, 3), ([True, True, False], 2), ([False, True], 0), ([True], 1)],
    )
    def test_what_the_engine_has_itself_is_skipped(self, mask: Any, skip_n: int, tmp_path: Path) -> None:
        ((_, _, _, skipped, read_n),) = rows(read_lines(tmp_path, [get(0, [1, 2, 3], block_mask=mask)]))
        assert (skipped, read_n) == (skip_n, 3)

    def test_only_prefix_matches_are_replayed(self, tmp_path: Path) -> None:
        log = [
            get(0, [1]),
            get(1, [1], query_type="batch_get"),
            get(2, [1], query_type="QT_PREFIX_MATCH"),
            get(3, [1], query_type="reverse_roll_sw_match"),
            {"source": "qwen", "type": "CacheReclaimSubmit", "trigger_time_us": T + 4, "block_keys": [1]},
        ]
        trace = read_lines(tmp_path, log)
        assert [at - T for _, at, *_ in rows(trace)] == [0, 2]
        assert trace.header.bad_line_count == 0
        assert "1 x lookup of type batch_get left out" in trace.header.notes
        assert "1 x event CacheReclaimSubmit left out" in trace.header.notes

    def test_keys_in_any_form(self, tmp_path: Path) -> None:
        log = [get(0, [-2, 2**64 - 2, "-2", "18446744073709551614", "0xfffffffffffffffe"])]
        ((_, _, keys, _, _),) = rows(read_lines(tmp_path, log))
        assert keys == [-2] * 5

    def test_tokens_alone_are_hashed_by_the_protocols_rule(self, tmp_path: Path) -> None:
        """The check values of WIRE.md 3.1: tokens 1..8, blocks of 4."""
        log = [get(0, [], tokens=list(range(1, 11)))]
        trace = read_lines(tmp_path, log, block_tokens=4)
        ((_, _, keys, _, _),) = rows(trace)
        assert keys == [455111481605203084, 6902853672176602142]
        assert trace.input_tokens.tolist() == [10]

    def test_the_block_size_shows_where_keys_and_tokens_are_given(self, tmp_path: Path) -> None:
        tokens = list(range(100))
        log = [get(0, chained_block_keys(tokens, 32), tokens=tokens), get(1, [], tokens=tokens)]
        trace = read_lines(tmp_path, log)
        assert trace.header.instances == (TraceInstance("qwen", 32),)
        first, second = rows(trace)
        assert first[2] == second[2]

    def test_lines_that_came_a_little_late_are_put_in_order(self, tmp_path: Path) -> None:
        """Several processes write one log: a Finish may stand before its Start."""
        log = [finish(4_000_000, "a"), get(1, [9]), start(10, [1, 2], "a"), get(5, [1])]
        trace = read_lines(tmp_path, log)
        assert [(kind, at - T) for kind, at, *_ in rows(trace)] == [
            ("READ", 1),
            ("READ", 5),
            ("WRITE", 4_000_000),
        ]
        much_later = [get(9_000_000, [1]), finish(9_000_001, "a"), get(20_000_000, [1]), start(10, [1], "a")]
        assert [(kind, at - T) for kind, at, *_ in rows(read_lines(tmp_path, much_later))] == [
            ("WRITE", 100_010),
            ("READ", 9_000_000),
            ("READ", 20_000_000),
        ]

    def test_unusable_lines_are_told(self, tmp_path: Path) -> None:
        log = [
            get(0, [1]),
            {"trigger_time_us": 1},
            get(0, [1], trigger_time_us="now"),
            get(0, [None]),
            get(0, [1], block_mask="all"),
            get(0, "1"),
            start(0, [1], "a", write_session_id=5),
        ]
        trace = read_lines(tmp_path, log)
        assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [
            (2, "type is not a string"),
            (3, "trigger_time_us is not a whole number"),
            (4, "keys holds None, which is no block key"),
            (5, "block_mask is neither an offset nor a list of true and false"),
            (6, "keys is not a list"),
            (7, "write_session_id is not a string"),
        ]


class TestTurns:
    def turns(self, tmp_path: Path, log: list[Any]) -> list[tuple[int, list[int], int, int]]:
        found = rows(read_lines(tmp_path, log, as_turns=True))
        assert {kind for kind, *_ in found} == {"TURN"}
        return [(at - T, keys, skip, read) for _, at, keys, skip, read in found]

    def test_a_lookup_and_its_write_are_one(self, tmp_path: Path) -> None:
        log = [get(0, [1, 2], block_mask=1), start(50, [1, 2, 3], "a"), finish(70, "a")]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 3], 1, 2)]

    def test_the_last_block_may_have_changed(self, tmp_path: Path) -> None:
        """Paired by keys[:-1]; the block that nobody wrote is not asked for."""
        log = [get(0, [1, 2, 7]), start(50, [1, 2, 3, 4], "a")]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 3, 4], 0, 2)]

    def test_others_stay_alone(self, tmp_path: Path) -> None:
        log = [get(0, [1, 2, 3]), start(50, [1, 9, 3], "a"), get(60, [5])]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 3], 0, 3), (50, [1, 9, 3], 0, 0), (60, [5], 0, 1)]

    def test_the_latest_lookup_that_fits_is_taken(self, tmp_path: Path) -> None:
        log = [
            get(0, [1, 2]),
            get(1, [1, 2]),
            get(2, [1, 2], source="llama"),
            start(3, [1, 2, 3], "a"),
            start(4, [1, 2, 4], "b"),
        ]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 4], 0, 2), (1, [1, 2, 3], 0, 2), (2, [1, 2], 0, 2)]

    def test_a_later_lookup_goes_before_a_longer_one(self, tmp_path: Path) -> None:
        log = [get(0, [1, 2, 3]), get(1, [1, 2]), start(2, [1, 2, 3, 4], "a")]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 3], 0, 3), (1, [1, 2, 3, 4], 0, 2)]

    def test_a_lookup_may_stand_behind_its_write(self, tmp_path: Path) -> None:
        log = [start(50, [1, 2, 3], "a"), get(0, [1, 2])]
        assert self.turns(tmp_path, log) == [(0, [1, 2, 3], 0, 2)]

    def test_a_later_lookup_is_not_taken(self, tmp_path: Path) -> None:
        log = [get(9, [1, 2]), start(3, [1, 2], "a")]
        assert self.turns(tmp_path, log) == [(3, [1, 2], 0, 0), (9, [1, 2], 0, 2)]


class TestBounds:
    def test_open_writes_are_closed_when_nobody_can_finish_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hour = 3_600_000_000
        log = [start(0, [1], "a"), start(hour, [2], "b"), finish(hour + 1, "a"), finish(hour + 2, "b")]
        trace = read_lines(tmp_path, log)
        assert [(at - T, keys) for _, at, keys, *_ in rows(trace)] == [(100_000, [1]), (hour + 2, [2])]
        monkeypatch.setattr(event_log, "MAX_PENDING", 2)
        log = [start(n, [n], str(n)) for n in range(4)] + [finish(9, "0"), finish(10, "3")]
        trace = read_lines(tmp_path, log)
        assert [(at - T, keys) for _, at, keys, *_ in rows(trace)] == [
            (10, [3]),
            (100_000, [0]),
            (100_001, [1]),
            (100_002, [2]),
        ]

    def test_lookups_wait_for_half_an_hour_and_not_in_any_number(self) -> None:
        lookups = Lookups(2, 1_000)
        requests = [SourceRequest(at, array("q", [at, 1])) for at in (0, 10, 20, 1_015)]
        assert lookups.add(requests[0]) == []
        assert lookups.add(requests[1]) == []
        assert lookups.add(requests[2]) == [requests[0]]
        assert lookups.add(requests[3]) == [requests[1]]
        assert lookups.take("instance", array("q", [10, 5]), 2_000) is None
        assert lookups.take("instance", array("q", [20, 5]), 19) is None, "asked later"
        assert lookups.take("instance", array("q", [20, 5]), 20) is requests[2]
        assert lookups.rest() == [requests[3]]


class TestCapture:
    def test_its_header_tells_the_instances_and_turns_are_made(self, tmp_path: Path) -> None:
        header = {
            "kvcm_capture": 1,
            "instances": [
                {"instance_id": "qwen", "block_tokens": 64, "block_bytes": 4096, "group": "g"},
                {"instance_id": "idle", "block_tokens": 16, "block_bytes": 1, "group": "g"},
            ],
        }
        log = [header, get(0, [1, 2], input_tokens=130, hit_blocks=0), start(9, [1, 2], "a"), finish(12, "a")]
        trace = read_lines(tmp_path, log)
        assert trace.header.format == "capture"
        assert rows(trace) == [("TURN", T, [1, 2], 0, 2)]
        assert trace.header.instances == (TraceInstance("qwen", 64, 4096, "g"),)
        assert trace.input_tokens.tolist() == [130]
        assert not trace.header.has_partial_blocks
        events = read_lines(tmp_path, log, as_turns=False)
        assert [kind for kind, *_ in rows(events)] == ["READ", "WRITE"]

    def test_what_the_platform_writes_is_read(self, tmp_path: Path) -> None:
        """Lines of index/capture_files, in two zstd frames as captures grow."""
        events: list[dict[str, Any]] = [
            {"t": QUERY, "i": "qwen", "us": T, "n": 2, "m": 1, "q": 2, "h": 0, "k": 40},
            {"t": START, "i": "qwen", "us": T + 10, "n": 3, "m": None, "s": "a"},
            {"t": FINISH, "i": "qwen", "us": T + 20, "n": 0, "m": 3, "s": "a"},
        ]
        keys = np.array([5, -6, 5, -6, 7], dtype=np.int64)
        lines = [line for _, line in lines_of(CapturedEvents("process", 0, events, keys))]
        header = header_line([CapturedInstance("qwen", 16, 4096, "default")])
        source = tmp_path / "capture"
        source.write_bytes(zstandard.compress(header) + zstandard.compress(b"".join(lines)))
        trace = ingest(source, tmp_path / "turns")
        assert rows(trace) == [("TURN", T, [5, -6, 7], 1, 2)]
        assert trace.input_tokens.tolist() == [40]
        assert trace.header.instances == (TraceInstance("qwen", 16, 4096, "default"),)
        assert trace.header.notes == ()
        events_of = ingest(source, tmp_path / "events", as_turns=False)
        assert rows(events_of) == [("READ", T, [5, -6], 1, 2), ("WRITE", T + 20, [5, -6, 7], 0, 0)]
