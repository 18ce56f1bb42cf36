"""Anonymized traces: the same prefixes are shared as before, and nothing of the prompts is left."""

from __future__ import annotations

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import TraceReadError, anonymize, ingest

from .naive_paths import chains_of, path_ids
from .reading import read_lines, rows, write_lines

SALT = b"a salt that nobody knows"


def prompts(seed: int, count: int = 80) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    heads = [[int(t) for t in random.integers(0, 9, size=40)] for _ in range(4)]
    return [
        {
            "timestamp": 1_700_000_000 + n / 4,
            "tokens": heads[int(random.integers(0, 4))][: int(random.integers(8, 40))]
            + [int(t) for t in random.integers(0, 3, size=random.integers(0, 20))],
            "model": f"secret-model-{n % 2}",
            "user": f"alice-{n % 5}",
            "type": "secret-type",
            "completion_tokens": n,
        }
        for n in range(count)
    ]


def full_blocks(tokens: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[at : at + size]) for at in range(0, len(tokens) - size + 1, size)]


def anonymized(tmp_path: Path, made: list[Any], **options: Any) -> Trace:
    source = write_lines(tmp_path / "prompts.jsonl", made)
    anonymize(source, tmp_path / "out.jsonl", salt=SALT, **options)
    return ingest(tmp_path / "out.jsonl", tmp_path / "trace")


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_shared_exactly_where_prefixes_are(seed: int, tmp_path: Path) -> None:
    made = prompts(seed)
    trace = anonymized(tmp_path, made, block_tokens=8)
    instance = {0: 0, 1: 1}
    expected = path_ids([(instance[n % 2], full_blocks(r["tokens"], 8)) for n, r in enumerate(made)])  # type: ignore[misc]
    assert chains_of(trace) == expected
    assert trace.header.format == "optimizer_schema"
    assert trace.at_us.tolist() == [n * 250_000 for n in range(len(made))]
    assert trace.header.start_us == 0
    assert trace.input_tokens.tolist() == [len(r["tokens"]) for r in made]
    assert trace.output_tokens.tolist() == list(range(len(made)))
    assert trace.session.tolist() == [n % 5 for n in range(len(made))]


def test_nothing_of_the_prompts_is_left(tmp_path: Path) -> None:
    anonymized(tmp_path, prompts(0), block_tokens=8)
    text = (tmp_path / "out.jsonl").read_text()
    assert "secret" not in text
    assert "alice" not in text
    assert {key for line in text.splitlines() for key in json.loads(line)} <= {
        "instance_id", "timestamp_us", "tokens", "keys", "query_type", "block_mask",
        "total_keys", "input_len", "output_len", "session_id", "request_type",
    }  # fmt: skip
    assert all(json.loads(line)["tokens"] == [] for line in text.splitlines())


def test_another_salt_gives_other_keys_and_the_same_salt_the_same(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "prompts", prompts(0, 5))
    for name, salt in (("a", SALT), ("b", SALT), ("c", b"other"), ("d", SALT * 9)):
        anonymize(source, tmp_path / name, salt=salt)
    read = {name: (tmp_path / name).read_bytes() for name in "abcd"}
    assert read["a"] == read["b"]
    assert len({read["a"], read["c"], read["d"]}) == 3


def test_the_first_key_is_a_keyed_hash_of_the_block(tmp_path: Path) -> None:
    """By hand: BLAKE2b with the salt as key, over the tokens as tagged 64-bit numbers."""
    trace = anonymized(tmp_path, [{"tokens": [5, 6]}], block_tokens=2)
    data = b"".join(b"i" + token.to_bytes(8, "little") for token in (5, 6))
    digest = blake2b(data, key=SALT, digest_size=16).digest()
    assert trace.key.tolist() == [int.from_bytes(digest[:8], "little", signed=True)]


def test_equal_blocks_after_different_ones_have_different_keys(tmp_path: Path) -> None:
    trace = anonymized(tmp_path, [{"tokens": [1, 1, 2, 2]}, {"tokens": [3, 3, 2, 2]}], block_tokens=2)
    assert len(set(trace.key.tolist())) == 4


def test_texts_are_cut_into_words_or_as_the_caller_says(tmp_path: Path) -> None:
    made = [
        {"prompt": "You are a helpful cat. Say miau"},
        {"prompt": "You are a helpful dog. Say wau"},
        {"tokens": ["You", " are", " a", " helpful", " cat.", " Say"]},
        {"messages": [{"role": "user", "content": "You are"}]},
        {"messages": [{"role": "user", "content": "You are"}, {"role": "user", "content": "a cat"}]},
    ]
    trace = anonymized(tmp_path, made, block_tokens=2)
    assert chains_of(trace) == path_ids(
        [
            (0, ["You are", "a helpful", "cat. Say"]),
            (0, ["You are", "a helpful", "dog. Say"]),
            (0, ["You are", "a helpful", "cat. Say"]),
            (0, ["<user> You"]),
            (0, ["<user> You", "are <user>", "a cat"]),
        ]  # type: ignore[list-item]
    )
    (tmp_path / "again").mkdir()
    letters = anonymized(tmp_path / "again", made[:1], block_tokens=4, tokenize=list)
    assert letters.blocks == len("You are a helpful cat. Say miau") // 4


def test_mooncakes_form_counts_the_partial_block(tmp_path: Path) -> None:
    made = [{"timestamp": 5, "tokens": list(range(20))}, {"timestamp": 6.5, "tokens": list(range(19))}]
    trace = anonymized(tmp_path, made, block_tokens=8, output="mooncake")
    assert trace.header.format == "mooncake"
    assert chains_of(trace) == [[0, 1, 2], [0, 1, 3]]
    assert trace.at_us.tolist() == [0, 1_500_000]
    assert all(key >= 0 for key in trace.key)


@pytest.mark.parametrize(("length", "output"), [(700, "mooncake"), (1024, "optimizer_schema")])
def test_partial_blocks_stay_what_they_are_unasked(length: int, output: str, tmp_path: Path) -> None:
    """Unless there are none: then the schema loses nothing."""
    made = [
        {"timestamp": 0, "input_length": 1024, "output_length": 3, "hash_ids": [0, 1]},
        {"timestamp": 1, "input_length": length, "output_length": 3, "hash_ids": [0, 2]},
    ]
    before = read_lines(tmp_path, made)
    told = anonymize(tmp_path / "source.jsonl", tmp_path / "out", salt=SALT)
    assert told.output == output
    after = ingest(tmp_path / "out", tmp_path / "after")
    assert chains_of(after) == chains_of(before) == [[0, 1], [0, 2]]
    assert after.input_tokens.tolist() == [1024, length]
    if output == "mooncake":
        assert [known.block_tokens for known in after.header.instances] == [512]
        assert after.header.has_partial_blocks


def test_a_trace_keeps_its_shape(tmp_path: Path) -> None:
    """Reads, writes and turns of two instances, whose keys are hashed once more."""
    made = [
        {
            "instance_id": "i",
            "timestamp_us": 5,
            "keys": [1, 2],
            "query_type": "prefix_match",
            "block_mask": 1,
        },
        {"instance_id": "j", "timestamp_us": 6, "keys": [1, 2, 3]},
        {"instance_id": "i", "timestamp_us": 9, "keys": [1, 2], "total_keys": [1, 2, 4], "request_type": "x"},
    ]
    before = read_lines(tmp_path, made)
    told = anonymize(tmp_path / "source.jsonl", tmp_path / "out", salt=SALT, keep_names=True)
    after = ingest(tmp_path / "out", tmp_path / "after")
    assert (told.requests, told.blocks) == (3, 8)
    assert chains_of(after) == chains_of(before)
    assert [row[0] for row in rows(after)] == ["READ", "WRITE", "TURN"]
    assert [row[3:] for row in rows(after)] == [row[3:] for row in rows(before)]
    assert after.at_us.tolist() == [0, 1, 4]
    assert [i.instance_id for i in after.header.instances] == ["i", "j"]
    assert set(after.key.tolist()).isdisjoint(before.key.tolist())
    with pytest.raises(TraceReadError, match="turns only") as refused:
        anonymize(tmp_path / "source.jsonl", tmp_path / "m", salt=SALT, output="mooncake")
    assert (refused.value.code, refused.value.field) == ("bad_option", "output")
    assert not (tmp_path / "m").exists()


def test_mooncakes_form_keeps_instances_apart(tmp_path: Path) -> None:
    made = [
        {"instance_id": name, "timestamp_us": n, "keys": [1, 2], "total_keys": [1, 2]}
        for n, name in enumerate("iji")
    ]
    write_lines(tmp_path / "source", made)
    anonymize(tmp_path / "source", tmp_path / "out", salt=SALT, output="mooncake")
    assert chains_of(ingest(tmp_path / "out", tmp_path / "t")) == [[0, 1], [2, 3], [0, 1]]


def test_options_are_checked_and_bad_lines_told(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "a", [{"tokens": [1] * 16}, {"tokens": [1.5]}, {"x": 1}])
    for options, field in (
        ({"salt": b""}, "salt"),
        ({"salt": SALT, "output": "csv"}, "output"),
        ({"salt": SALT, "block_tokens": 0}, "block_tokens"),
    ):
        with pytest.raises(TraceReadError) as refused:
            anonymize(source, tmp_path / "out", **options)  # type: ignore[arg-type]
        assert (refused.value.code, refused.value.field) == ("bad_option", field)
    told = anonymize(source, tmp_path / "out", salt=SALT)
    assert told.requests == 1
    assert [bad.number for bad in told.bad_lines] == [2, 3]
    assert sorted(os.listdir(tmp_path)) == ["a", "out"]
