"""Qwen-Bailian, the optimizer schema, LMCache's logs and KV events: what each record becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from kvcm_platform.core.block_keys import chained_block_keys
from kvcm_platform.optimizer.trace import Trace, TraceInstance
from kvcm_platform.optimizer.traces import TraceReadError, ingest

from .naive_paths import check_paths
from .reading import read_lines, rows, write_lines

T = 1_700_000_000_000_000


class TestBailian:
    def test_ids_are_hashed_with_their_prefix_and_chats_are_sessions(self, tmp_path: Path) -> None:
        """[456] and [-1, 5] are check values of WIRE.md 3.1, one id as one token."""
        record = {"input_length": 30, "output_length": 2, "turn": 1}
        trace = read_lines(
            tmp_path,
            [
                {
                    **record,
                    "chat_id": 7,
                    "parent_chat_id": -1,
                    "timestamp": 0.5,
                    "type": "text",
                    "hash_ids": [456],
                },
                {
                    **record,
                    "chat_id": 8,
                    "parent_chat_id": 7,
                    "timestamp": 2,
                    "type": "file",
                    "hash_ids": [-1, 5],
                },
                {
                    **record,
                    "chat_id": 9,
                    "parent_chat_id": -1,
                    "timestamp": 3,
                    "type": "text",
                    "hash_ids": [5],
                },
            ],
        )
        assert trace.header.format == "bailian"
        assert [row[1:3] for row in rows(trace)][:2] == [
            (500_000, [-7046029254386352675]),
            (2_000_000, [-7046029254386353132, -8366447769517733433]),
        ]
        assert trace.distinct_blocks == 4
        assert trace.session.tolist() == [0, 0, 1]
        assert [trace.header.types[k] for k in trace.type] == ["text", "file", "text"]
        assert trace.header.instances == (TraceInstance("instance", 16),)


class TestOptimizerSchema:
    def record(self, at: int, **more: Any) -> dict[str, Any]:
        return {"instance_id": "i", "trace_id": "t", "timestamp_us": T + at, "tokens": [], **more}

    def test_kinds_are_told_apart_by_their_members(self, tmp_path: Path) -> None:
        trace = read_lines(
            tmp_path,
            [
                self.record(0, keys=[1, 2], query_type="prefix_match", block_mask=1, input_len=40),
                self.record(1, keys=[1, 2, 3]),
                self.record(
                    2,
                    keys=[1, 2],
                    query_type="prefix_match",
                    block_mask=[True, False],
                    input_len=40,
                    output_len=20,
                    total_keys=[1, 2, 3],
                ),
                self.record(3, keys=[1, 9], query_type="prefix_match", total_keys=[1, 2, 3]),
                self.record(4, keys=[1], query_type="batch_get"),
            ],
        )
        assert trace.header.format == "optimizer_schema"
        assert rows(trace) == [
            ("READ", T, [1, 2], 1, 2),
            ("WRITE", T + 1, [1, 2, 3], 0, 0),
            ("TURN", T + 2, [1, 2, 3], 1, 2),
            ("TURN", T + 3, [1, 2, 3], 0, 1),
        ]
        assert trace.input_tokens.tolist()[:3] == [40, 48, 40]
        assert trace.output_tokens.tolist() == [0, 0, 20, 0]
        check_paths(trace)

    def test_later_versions_say_the_kind_and_nanoseconds(self, tmp_path: Path) -> None:
        made = [
            {"type": kind, "instance_id": "i", "timestamp_ns": (T + n) * 1000, "keys": [5], "input_len": 16}
            for n, kind in enumerate(("get", "write", "request"))
        ]
        assert [row[:2] for row in rows(read_lines(tmp_path, made))] == [
            ("READ", T),
            ("WRITE", T + 1),
            ("TURN", T + 2),
        ]

    def test_tokens_alone_are_hashed(self, tmp_path: Path) -> None:
        tokens = list(range(40))
        made = [self.record(0, keys=[], tokens=tokens, query_type="prefix_match")]
        ((_, _, keys, _, _),) = rows(read_lines(tmp_path, made))
        assert keys == chained_block_keys(tokens, 16)


class TestLmcache:
    def test_the_servers_log(self, tmp_path: Path) -> None:
        record = {
            "timestamp": 1_700_000_000.25,
            "request_id": "req-abc",
            "model_name": "DeepSeek-V3",
            "chunk_size": 256,
            "seq_len": 512,
            "dtypes": ["float8_e4m3fn", "torch.bfloat16"],
            "shapes": [[32, 256, 128], [1, 256, 2]],
            "chunk_hashes": ["0x" + "ab" * 24 + "00000000000000ff", hex(2**64 - 1)],
        }
        trace = read_lines(tmp_path, [record])
        assert trace.header.format == "lmcache"
        assert rows(trace)[0] == ("TURN", T + 250_000, [255, -1], 0, 2)
        assert trace.header.instances == (TraceInstance("DeepSeek-V3", 256, 32 * 256 * 128 + 256 * 2 * 2),)
        assert trace.input_tokens.tolist() == [512]

    def test_chunk_statistics(self, tmp_path: Path) -> None:
        made = [{"timestamp": 1_700_000_000, "lookup_id": "a", "chunk_hashes": ["0x1", "0x2"]}]
        trace = read_lines(tmp_path, made)
        assert rows(trace) == [("TURN", T, [1, 2], 0, 2)]
        assert trace.input_tokens.tolist() == [512]

    def test_dates_need_a_zone(self, tmp_path: Path) -> None:
        made = [
            {"timestamp": "2023-11-14T22:13:20Z", "chunk_hashes": ["0x1"]},
            {"timestamp": "2023-11-14T22:13:20", "chunk_hashes": ["0x1"]},
            {"timestamp": "soon", "chunk_hashes": ["0x1"]},
            {"timestamp": 5, "chunk_hashes": ["0xzz"]},
        ]
        trace = read_lines(tmp_path, made)
        assert [at for _, at, *_ in rows(trace)] == [T]
        assert [bad.reason for bad in trace.header.bad_lines] == [
            "timestamp has no time zone",
            "timestamp 'soon' is no date",
            "chunk_hashes holds '0xzz', which is no block key",
        ]


def stored(hashes: list[Any], parent: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": parent,
        "token_ids": [],
        "block_size": 32,
        "lora_id": None,
        "medium": "GPU",
        **more,
    }


BATCHES: list[Any] = [
    [1_700_000_000.0, [stored([1, 2]), stored([1, 2], medium="CPU_PINNED")], 0],
    [1_700_000_001.0, [stored([3], 2), {"type": "BlockRemoved", "block_hashes": [2], "medium": "GPU"}], 0],
    [1_700_000_002.0, [{"type": "AllBlocksCleared"}, stored([2**64 - 9, 4], 3, session_id="s")], 0],
    [1_700_000_003.0, [stored([8, 9], 77)], 1],
    [1_700_000_004.0, [stored([2], 1)], 1],
]
TURNS = [
    ("TURN", T, [1, 2], 0, 2),
    ("TURN", T + 1_000_000, [1, 2, 3], 2, 3),
    ("TURN", T + 2_000_000, [1, 2, 3, -9, 4], 3, 5),
    ("TURN", T + 3_000_000, [77, 8, 9], 1, 3),
    ("TURN", T + 4_000_000, [1, 2], 1, 2),
]


class TestKvEvents:
    def msgpack_of(self, tmp_path: Path, values: list[Any]) -> Trace:
        source = tmp_path / "events.msgpack"
        source.write_bytes(b"".join(msgpack.packb(value) for value in values))
        return ingest(source, tmp_path / "t")

    def test_what_an_engine_stores_is_what_it_needed(self, tmp_path: Path) -> None:
        trace = read_lines(tmp_path, BATCHES)
        assert trace.header.format == "kv_events"
        assert rows(trace) == TURNS
        assert trace.header.instances == (TraceInstance("instance", 32),)
        assert trace.header.notes == (
            "1 x AllBlocksCleared event left out",
            "1 x BlockRemoved event left out",
            "1 x BlockStored below a block that the dump does not have: taken for a first one",
            "1 x BlockStored on CPU_PINNED left out",
        )
        assert trace.session.tolist() == [-1, -1, 0, -1, -1]
        check_paths(trace)

    def test_a_stream_of_msgpack(self, tmp_path: Path) -> None:
        assert rows(self.msgpack_of(tmp_path, BATCHES)) == TURNS

    def test_whole_messages_and_raw_hashes(self, tmp_path: Path) -> None:
        """Frames as a subscriber gets them; 32-byte hashes, whose low 64 bits are the key."""
        long = {n: bytes(range(24)) + n.to_bytes(8, "big") for n in (5, 6)}
        batch = [1_700_000_000.0, [stored([long[5], long[6]])], 0]
        message = [b"kv@vllm", (0).to_bytes(8, "big"), msgpack.packb(batch)]
        assert rows(self.msgpack_of(tmp_path, [message])) == [("TURN", T, [5, 6], 0, 2)]

    def test_older_engines_send_arrays(self, tmp_path: Path) -> None:
        batch = [1_700_000_000.0, [["BlockStored", [1, 2], None, [0] * 32, 16, None], ["AllBlocksCleared"]]]
        trace = read_lines(tmp_path, [batch])
        assert rows(trace) == [("TURN", T, [1, 2], 0, 2)]
        assert trace.header.instances[0].block_tokens == 16

    def test_objects_and_single_events(self, tmp_path: Path) -> None:
        made = [{"ts": 1_700_000_000, "events": [stored([1])]}, {"ts": 1_700_000_001, **stored([2], 1)}]
        assert rows(read_lines(tmp_path, made)) == [
            ("TURN", T, [1], 0, 1),
            ("TURN", T + 1_000_000, [1, 2], 1, 2),
        ]

    def test_of_hybrid_models_the_first_group_with_full_attention_counts(self, tmp_path: Path) -> None:
        events = [
            stored([1], group_idx=1, kv_cache_spec_kind="sliding_window"),
            stored([2], group_idx=0, kv_cache_spec_kind="full_attention"),
            stored([3], group_idx=2),
        ]
        trace = read_lines(tmp_path, [[1_700_000_000, events, 0]])
        assert [keys for _, _, keys, *_ in rows(trace)] == [[2]]

    def test_a_dump_that_is_cut_off_is_told(self, tmp_path: Path) -> None:
        packed = b"".join(msgpack.packb(value) for value in BATCHES)
        (tmp_path / "a").write_bytes(packed[:-3])
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert rows(trace) == TURNS[:-1]
        assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [
            (5, "its last record is cut off")
        ]

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("[1, 2]", "not a batch of events: [time, events, rank] is expected"),
            ('["now", [], 0]', "ts is not a number"),
            ('{"ts": 1, "events": 5}', "events is not a list"),
            ("[1, [[]], 0]", "an event has no type"),
            (
                '[1, [{"type": "BlockStored", "block_hashes": [], "block_size": 1}], 0]',
                "block_hashes is empty",
            ),
            ('[1, [{"type": "BlockStored", "block_hashes": [1]}], 0]', "block_size is not a whole number"),
            ("5", "neither a batch of events nor an event"),
        ],
    )
    def test_unusable_batches_are_told(self, line: str, reason: str, tmp_path: Path) -> None:
        (tmp_path / "a").write_text(json.dumps(BATCHES[0]) + "\n" + line + "\n")
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [(2, reason)]
        assert trace.requests == 1

    def test_what_cannot_be_a_map_ends_the_stream(self, tmp_path: Path) -> None:
        """A list as a key is msgpack, but no map of Python's."""
        (tmp_path / "a").write_bytes(msgpack.packb(BATCHES[0]) + b"\x81\x91\x01\x02")
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert trace.requests == 1
        assert [bad.number for bad in trace.header.bad_lines] == [2]

    def test_payloads_within_payloads_are_a_bad_record(self, tmp_path: Path) -> None:
        nested = b""
        for _ in range(3000):
            nested = msgpack.packb([0, 0, nested])
        (tmp_path / "a").write_bytes(msgpack.packb(BATCHES[0]) + nested + msgpack.packb(BATCHES[0]))
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert trace.requests == 2
        assert [bad.number for bad in trace.header.bad_lines] == [2]

    def test_chains_that_are_made_longer_block_by_block_are_bounded(self, tmp_path: Path) -> None:
        """Each is written whole: their size grows with the square of the dump's."""
        batches = [[n, [stored([n + 1], n or None)], 0] for n in range(2000)]
        source = write_lines(tmp_path / "a", batches)
        size = source.stat().st_size
        assert ingest(source, tmp_path / "t").blocks == 2000 * 2001 // 2
        with pytest.raises(TraceReadError) as refused:
            ingest(source, tmp_path / "u", max_bytes=10 * size)
        assert refused.value.code == "too_large"
