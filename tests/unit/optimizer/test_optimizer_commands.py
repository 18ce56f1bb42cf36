"""The command line: figures against published ones and plain models, files, and how it refuses."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcm_platform.optimizer.cli import main
from kvcm_platform.optimizer.trace import TraceInstance
from tests.support.naive_curves import naive_lru
from tests.support.optimizer_traces import SHARED, Turn, needs_shared, trace_of

REPOSITORY = Path(__file__).resolve().parents[3]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Arguments to exit code, stdout, stderr; with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, list[list[int]]]:
    """A Mooncake file of 120 requests, a minute apart, and its chains."""
    chance = random.Random(3)
    ids: dict[tuple[int, ...], int] = {}
    chains = []
    for _ in range(120):
        chain = [chance.randint(0, 3) for _ in range(chance.randint(1, 6))]
        prefixes = [tuple(chain[: i + 1]) for i in range(len(chain))]
        chains.append([ids.setdefault(prefix, len(ids)) for prefix in prefixes])
    path = tmp_path / "small.jsonl"
    with path.open("w") as file:
        for number, chain in enumerate(chains):
            record = {"timestamp": number * 60_000, "input_length": 512 * len(chain), "output_length": 1}
            file.write(json.dumps({**record, "hash_ids": chain}) + "\n")
    return path, chains


def test_an_event_log_becomes_turns_where_it_is_asked_for(run: Run, tmp_path: Path) -> None:
    common = {"source": "qwen", "keys": [1, 2], "block_mask": 0}
    log = [
        {**common, "type": "GetCacheLocation", "trigger_time_us": 10**15, "query_type": "prefix_match"},
        {**common, "type": "StartWriteCache", "trigger_time_us": 10**15 + 1, "write_session_id": "a"},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in log))
    for options, expected in (([], [0, 1, 1]), (["--as-turns"], [1, 0, 0])):
        code, told, _ = run(
            "ingest", "--trace", path, "--out", tmp_path / f"t{len(options)}", "--json", *options
        )
        events = json.loads(told)["events"]
        assert (code, [events[kind] for kind in ("turn", "read", "write")]) == (0, expected)


@needs_shared
@pytest.mark.parametrize(
    ("name", "rates", "bound"),
    [
        ("conversation", [0.0523, 0.1954, 0.2784, 0.3535, 0.3631, 0.3664], 0.3664),
        ("synthetic", [0.0343, 0.1548, 0.2598, 0.4434, 0.5888, 0.6396], 0.6180),
    ],
)
def test_simulate_gives_the_published_figures(name: str, rates: list[float], bound: float, run: Run) -> None:
    trace = SHARED / f"mooncake_{name}_trace.jsonl"
    common = ("simulate", "--trace", trace, "--format", "mooncake", "--json")
    code, out, err = run(
        *common, "--policy", "lru", "--touch", "root", "--capacities", "1%,5%,10%,25%,50%,100%"
    )

    assert code == 0
    assert f"reading {trace}" in err
    assert [round(line["hit_rate"], 4) for line in objects(out)] == rates
    assert set(objects(out)[0]) == {
        "policy",
        "capacity_blocks",
        "requests",
        "blocks",
        "hit_blocks",
        "hit_rate",
    }

    code, out, err = run(*common, "--policy", "belady", "--capacities", "10000")
    assert [round(line["hit_rate"], 4) for line in objects(out)] == [bound]
    assert "reading" not in err, "it was read before"


def test_simulate_equals_a_plain_model(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    turns = [Turn(chain) for chain in chains]
    trace = trace_of(turns, (TraceInstance("i", 512),))
    for touch in ("deep", "root"):
        code, out, _ = run("simulate", "--trace", path, "--touch", touch, "--capacities", "5,20,60", "--json")
        assert code == 0
        for line in objects(out):
            hits, _ = naive_lru(trace, turns, line["capacity_blocks"], is_root=touch == "root")
            assert line["hit_blocks"] == hits.blocks
            assert line["hit_rate"] == hits.blocks / sum(map(len, chains))


def test_policies_and_sizes_are_lists(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, _ = small
    code, out, _ = run(
        "simulate", "--trace", path, "--block-bytes", 1 << 20, "--policy", "fifo,lru,fifo", "--capacities",
        "16MiB,50%", "--json",
    )  # fmt: skip
    assert code == 0
    lines = objects(out)
    assert [line["policy"] for line in lines] == ["fifo", "fifo", "lru", "lru"]
    assert [line["capacity_blocks"] for line in lines[:2]] == sorted(
        [16, lines[0]["capacity_blocks"] + lines[1]["capacity_blocks"] - 16]
    )

    code, out, _ = run(
        "simulate",
        "--trace",
        path,
        "--block-bytes",
        1 << 20,
        "--unit",
        "bytes",
        "--capacities",
        "16MiB",
        "--json",
    )
    assert objects(out)[0]["capacity_bytes"] == 16 << 20
    assert objects(out)[0]["hit_blocks"] == next(
        line["hit_blocks"] for line in lines if (line["policy"], line["capacity_blocks"]) == ("lru", 16)
    )


def test_late_writes_hit_less(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, _ = small
    common = (
        "simulate",
        "--trace",
        path,
        "--capacities",
        "100%",
        "--json",
        "--events",
        "read_write",
        "--delay",
    )
    hits = [objects(run(*common, delay)[1])[0]["hit_blocks"] for delay in (0, 100, 1e6)]

    assert hits[0] > hits[1] > hits[2] == 0


@needs_shared
def test_users_of_the_reference_find_their_numbers(run: Run) -> None:
    trace = SHARED / "mooncake_conversation_trace.jsonl"
    code, out, _ = run(
        "simulate", "--trace", trace, "--policy", "compat:lru,compat:leaf_aware_lru", "--capacities",
        "1000,10000", "--parameter", "eviction_mode=3", "--json",
    )  # fmt: skip
    assert code == 0
    hits = [line["hit_blocks"] for line in objects(out)]
    assert hits[2:] == [12_831, 60_921]
    code, out, _ = run(
        "simulate", "--trace", trace, "--policy", "compat:lru", "--capacities", "1000,10000", "--json"
    )
    assert [line["hit_blocks"] for line in objects(out)] == [12_608, 60_308] != hits[:2]


@needs_shared
def test_from_a_packed_file_to_a_picture_in_one_command(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    trace = SHARED / "weka_agentic_sample.jsonl.gz"
    code, out, err = run("curve", "--trace", trace, "--one-namespace", "--png", picture)

    assert code == 0
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not list(tmp_path.glob("*.part"))
    assert "6,110 requests asked for" in out
    assert f"wrote {picture}" in err


def test_curve_writes_what_was_asked_for(
    small: tuple[Path, list[list[int]]], run: Run, tmp_path: Path
) -> None:
    path, chains = small
    code, out, _ = run(
        "curve", "--trace", path, "--block-bytes", 1000, "--bound", "--quota", "50%", "--json",
        "--png", tmp_path / "a.png", "--dark", "--csv", tmp_path / "a.csv", "--html", tmp_path / "a.html",
    )  # fmt: skip

    assert code == 0
    document = json.loads(out)
    distinct = len({block for chain in chains for block in chain})
    assert document["trace"]["distinct blocks"] == str(distinct)
    lru, bound = document["curves"]
    assert lru["curve"]["capacities"][-1] == distinct
    assert (
        lru["curve"]["hit_blocks"][-1] == sum(map(len, chains)) - distinct == bound["curve"]["hit_blocks"][-1]
    )
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert len(rows) == len(lru["curve"]["capacities"]) + len(bound["curve"]["capacities"])
    assert "At the quota of" in (tmp_path / "a.html").read_text()
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_two_tiers_share_the_hits_of_both_together(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    turns = [Turn(chain) for chain in chains]
    trace = trace_of(turns, (TraceInstance("i", 512),))
    code, out, _ = run("curve", "--trace", path, "--tiers", "5+20,20+5", "--json")
    assert code == 0
    for split in json.loads(out)["tiers"]:
        upper, _ = naive_lru(trace, turns, split["capacity1"])
        both, _ = naive_lru(trace, turns, 25)
        assert split["tier1"]["blocks"] == upper.blocks
        assert split["tier2"]["blocks"] == both.blocks - upper.blocks
    assert "Two tiers" in run("curve", "--trace", path, "--tiers", "5+20")[1]


def test_ttl_has_times(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    used: dict[int, int] = {}
    gaps = []
    for minute, chain in enumerate(chains):
        gaps += [60 * (minute - used[block]) for block in chain if block in used]
        used |= dict.fromkeys(chain, minute)
    code, out, _ = run("curve", "--trace", path, "--policy", "ttl", "--ttls", "60,300,7200", "--json")

    assert code == 0
    found = json.loads(out)["curves"][0]["curve"]
    assert found["capacities"] == [60_000_000, 300_000_000, 7_200_000_000]
    assert found["hit_blocks"] == [sum(gap <= ttl for gap in gaps) for ttl in (60, 300, 7200)]


def test_compare_names_the_best_of_each_capacity(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, _ = small
    code, out, _ = run("compare", "--trace", path, "--policy", "lru,fifo", "--capacities", "5,40")
    assert code == 0
    header, *rows = [line.split() for line in out.splitlines()[:3]]
    assert header == ["capacity", "lru", "fifo", "clairvoyant", "bound", "best"]
    for row in rows:
        lru, fifo, belady = (float(rate.removesuffix("%")) for rate in row[2:5])
        assert belady >= max(lru, fifo)
        assert row[5] == ("lru" if lru >= fifo else "fifo")


def test_roi_takes_the_size_of_blocks_from_the_model(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    code, out, _ = run(
        "roi", "--trace", path, "--model", "llama-3.1-8b", "--tier", "disk:0.5:2:1", "--by", "type", "--json"
    )

    assert code == 0
    document = json.loads(out)
    worth, best = document["roi"], document["roi"]["best"]
    # 512 tokens of 128 KiB.
    assert worth["capacity_bytes"][0] == 512 * 131_072
    assert worth["cost_model"]["tiers"] == [
        {
            "name": "disk",
            "price_per_gib_month": 0.5,
            "bandwidth_bytes_per_second": 2e9,
            "latency_seconds": 0.001,
            "capacity_bytes": 0,
        }
    ]
    assert best["net_money_month"] == max(worth["net_money_month"]) == worth["net_money_month"][best["index"]]
    assert [scenario["name"] for scenario in document["scenarios"]] == ["(no type)"]
    assert document["scenarios"][0]["net_money_month"] == pytest.approx(best["net_money_month"])


def test_the_best_capacity_is_the_best_of_all(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    distinct = len({block for chain in chains for block in chain})
    common = ("roi", "--trace", path, "--model", "llama-3.1-8b", "--tier", "disk:2", "--json")
    found = json.loads(run(*common)[1])["roi"]["best"]
    every = ",".join(map(str, range(1, distinct + 1)))
    searched = json.loads(run(*common, "--capacities", every)[1])["roi"]["best"]

    assert found["capacity"] == searched["capacity"] > 0
    assert found["net_money_month"] == pytest.approx(searched["net_money_month"])
    assert found["most_net_money_month"] == pytest.approx(found["net_money_month"])


def test_a_part_that_is_asked_for_shortly_is_not_taken_for_a_whole_month(run: Run, tmp_path: Path) -> None:
    """Two types with the same requests, one within a minute and one all day: they save as much a month."""
    path = tmp_path / "two.jsonl"
    with path.open("w") as file:
        for number in range(100):
            for second, kind in ((number, "rush"), (number * 864, "calm")):
                keys = [100 if kind == "rush" else 200]
                record = {"timestamp": second, "hash_ids": keys, "input_length": 16, "output_length": 1}
                file.write(json.dumps({**record, "chat_id": 1, "parent_chat_id": -1, "type": kind}) + "\n")
    _, out, _ = run(
        "roi", "--trace", path, "--model", "qwen3-8b", "--by", "type", "--json", "--format", "bailian"
    )
    saved = {one["name"]: one["saved_money_month"] for one in json.loads(out)["scenarios"]}
    assert saved["rush"] == pytest.approx(saved["calm"]) != 0


def test_a_cost_model_may_come_from_a_file(
    small: tuple[Path, list[list[int]]], run: Run, tmp_path: Path
) -> None:
    path, _ = small
    model = tmp_path / "cost.json"
    model.write_text(json.dumps({"model": "qwen3-8b", "currency": "EUR", "gpu_hour_price": 4}))
    code, out, _ = run("roi", "--trace", path, "--cost-model", model, "--gpu-hour-price", "5", "--json")

    assert code == 0
    cost = json.loads(out)["roi"]["cost_model"]
    assert (cost["currency"], cost["gpu_hour_price"], cost["model"]["name"]) == ("EUR", 5, "qwen3-8b")


def test_a_generated_trace_gets_a_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("generate", "--requests", 3000, "--instances", 2, "--out", tmp_path / "gen", "--json")
    assert code == 0
    assert json.loads(out)["requests"] == 3000

    folder = tmp_path / "report"
    code, out, _ = run(
        "report", "--trace", tmp_path / "gen", "--model", "llama-3.1-8b", "--out", folder, "--policy",
        "lru,fifo", "--capacities", "10%,50%", "--quota", "10%",
    )  # fmt: skip
    assert code == 0
    assert sorted(file.name for file in folder.iterdir()) == [
        "curves.csv",
        "curves.png",
        "report.html",
        "report.json",
    ]
    document = json.loads((folder / "report.json").read_text())
    assert [entry["label"] for entry in document["curves"]] == ["lru", "fifo", "clairvoyant bound"]
    assert len(document["scenarios"]) == 2
    best = json.loads(run("roi", "--trace", tmp_path / "gen", "--model", "llama-3.1-8b", "--json")[1])["roi"][
        "best"
    ]
    assert document["worth"]["best"]["capacity"] == best["capacity"] > 256
    assert len(document["analysis"]["windows"]) > 10
    for words in ("Best capacity", "Hot prefixes", "Over time", "Which scenarios"):
        assert words in out
        assert words in (folder / "report.html").read_text()


def test_parts_of_a_trace(small: tuple[Path, list[list[int]]], run: Run) -> None:
    path, chains = small
    _, out, _ = run(
        "simulate", "--trace", path, "--capacities", "100%", "--begin", 60 * 20, "--end", 60 * 50, "--json"
    )
    assert objects(out)[0]["requests"] == 30
    assert objects(out)[0]["blocks"] == sum(len(chain) for chain in chains[20:50])


def test_ingest_makes_a_directory_that_commands_take(
    small: tuple[Path, list[list[int]]], run: Run, tmp_path: Path
) -> None:
    path, _ = small
    with path.open("a") as file:
        file.write("{not json\n")
    code, out, err = run("ingest", "--trace", path, "--out", tmp_path / "columns", "--block-bytes", 7)

    assert code == 0
    assert "120 requests" in out
    assert "line 121" in err
    assert run("simulate", "--trace", tmp_path / "columns", "--capacities", "7B")[0] == 0
    code, _, err = run("ingest", "--trace", path, "--out", tmp_path / "columns")
    assert (code, err.count("\n")) == (2, 1)
    assert "exists already" in err


def test_a_parquet_file_says_the_same(small: tuple[Path, list[list[int]]], run: Run, tmp_path: Path) -> None:
    path, _ = small
    packed = tmp_path / "small.parquet"
    assert run("ingest", "--trace", path, "--out", tmp_path / "columns", "--parquet", packed)[0] == 0
    answers = [
        objects(run("simulate", "--trace", trace, "--capacities", "10,50", "--json")[1])
        for trace in (path, packed)
    ]
    assert answers[0] == answers[1] != []


def test_an_anonymized_trace_hits_the_same_and_tells_no_key(
    small: tuple[Path, list[list[int]]], run: Run, tmp_path: Path
) -> None:
    path, chains = small
    salt = tmp_path / "salt"
    salt.write_text("known to nobody\n")
    files = []
    for name in ("a", "b", "c"):
        files.append(tmp_path / f"{name}.jsonl")
        kept = ["--salt-file", salt] if name != "c" else []
        code, out, _ = run("anonymize", "--trace", path, "--out", files[-1], *kept, "--json")
        assert (code, json.loads(out)["blocks"]) == (0, sum(map(len, chains)))
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    keys = {key for record in objects(files[0].read_text()) for key in record["keys"]}
    assert len(keys) == len({block for chain in chains for block in chain})
    assert keys.isdisjoint(block for chain in chains for block in chain)
    hits = [
        objects(run("simulate", "--trace", trace, "--capacities", "30", "--json")[1])[0]["hit_blocks"]
        for trace in (path, files[2])
    ]
    assert hits[0] == hits[1] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", "--trace", "{small}", "--policy", "mru"], "mru"),
        (["simulate", "--trace", "{small}", "--policy", "ttl"], "curve --policy ttl"),
        (["simulate", "--trace", "{small}", "--capacities", "5x"], "capacities: '5x'"),
        (["simulate", "--trace", "{small}", "--capacities", "1GiB"], "no size"),
        (["simulate", "--trace", "{small}", "--unit", "bytes"], "unit"),
        (
            ["simulate", "--trace", "{small}", "--parameter", "samples=3"],
            "none of the policies has 'samples'",
        ),
        (["simulate", "--trace", "{small}", "--parameter", "samples"], "NAME=VALUE"),
        (["simulate", "--trace", "{small}", "--format", "csv"], "--format"),
        (["simulate", "--trace", "/nowhere/trace.jsonl"], "/nowhere/trace.jsonl: No such file"),
        (["curve", "--trace", "{small}", "--ttls", "5"], "ttls"),
        (["curve", "--trace", "{small}", "--policy", "ttl", "--ttls", "soon"], "soon"),
        (["curve", "--trace", "{small}", "--begin", "1e9"], "no request"),
        (["curve", "--trace", "{small}", "--tiers", "5"], "tiers: pairs"),
        (["curve", "--trace", "{small}", "--tiers", "5+x"], "tiers: 'x'"),
        (["curve", "--trace", "{small}", "--tiers", "5+5", "--touch", "root"], "deepest first"),
        (["curve", "--trace", "{small}", "--png", "/nowhere/a.png"], "/nowhere"),
        (
            [
                "compare",
                "--trace",
                "{small}",
                "--policy",
                ",".join(["lru", "fifo", "lfu", "clock", "sieve", "s3_fifo", "sampled_lru", "leaf_lru"]),
            ],
            "policy: at most 7",
        ),  # fmt: skip
        (["roi", "--trace", "{small}"], "model"),
        (["roi", "--trace", "{small}", "--model", "qwen3-8b", "--tier", "disk"], "tier: NAME:PRICE"),
        (["roi", "--trace", "{small}", "--model", "qwen3-8b", "--tier", "disk:x"], "'x'"),
        (["roi", "--trace", "{small}", "--cost-model", "{small}"], "no JSON object"),
        (["generate", "--requests", "0", "--out", "x"], "at least 1"),
        (["curve", "--trace", "{small}", "--begin", "nan"], "--begin"),
        (["curve", "--trace", "/dev/zero"], "/dev/zero is no file"),
        (["simulate", "--trace", "/dev/zero", "--format", "mooncake"], "/dev/zero is no file"),
        (["curve", "--trace", "{small}", "--end", "inf"], "--end"),
        (["curve", "--trace", "{small}", "--policy", "ttl", "--ttls", "1e300"], "ttls"),
        (["compare", "--trace", "{small}", "--events", "read_write", "--delay", "inf"], "--delay"),
        (["compare", "--trace", "{small}", "--events", "read_write", "--delay", "1e13"], "--delay"),
        (["simulate", "--trace", "{small}", "--block-tokens", str(2**70)], "block_tokens"),
        (["shrink"], "shrink"),
    ],
)
def test_refusals_are_one_line_and_code_2(
    arguments: list[str], words: str, small: tuple[Path, list[list[int]]], run: Run
) -> None:
    code, out, err = run(*(argument.replace("{small}", str(small[0])) for argument in arguments), "--quiet")

    assert code == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_it_is_a_module_that_can_be_run_and_piped(
    small: tuple[Path, list[list[int]]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "kvcm_platform.optimizer", "simulate", "--trace", str(small[0])]
    done = subprocess.run(
        [*command, "--cache", str(tmp_path / "kept"), "--capacities", "10", "--json"],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout)["capacity_blocks"] == 10
    assert list((tmp_path / "kept").iterdir())
