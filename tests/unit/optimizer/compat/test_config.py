"""A configuration file of the reference simulator is run as it is, and its tables come out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.compat.__main__ import main
from kvcm_platform.optimizer.compat.config import load_config, parse_config
from kvcm_platform.optimizer.compat.hit_rates import write_hit_rates
from kvcm_platform.optimizer.compat.settings import (
    EvictionMode,
    ReferenceGroup,
    ReferenceInstance,
    ReferencePolicy,
    ReferenceSettings,
)
from kvcm_platform.optimizer.trace import Event, TraceInstance
from tests.support.optimizer_traces import SHARED, Turn, needs_shared, trace_of

STORAGE = {
    "unique_name": "pace_00",
    "storage_type": "pace",
    "band_width_mbps": 20000,
    "priority": 0,
    "capacity": 77,
}


def config_of(**changes: Any) -> dict[str, Any]:
    """The shape of WIRE.md F 7.1."""
    instance = {
        "instance_id": "instance",
        "block_size": 16,
        "eviction_policy_type": "random_lru",
        "eviction_policy_params": {"sample_rate": 0.25},
    }
    group = {
        "group_name": "instance_group_01",
        "quota_capacity": 12000,
        "used_percentage": 0.5,
        "hierarchical_eviction_enabled": False,
        "storages": [STORAGE],
        "instances": [instance],
    }
    config: dict[str, Any] = {
        "trace_file_path": "/trace.jsonl",
        "trace_type": "qwen_bailian",
        "output_result_path": "/result",
        "eviction_params": {"eviction_mode": 2, "eviction_batch_size_per_instance": 30},
        "instance_groups": [group],
    }
    for path, value in changes.items():
        at: Any = config
        *folders, last = [int(name) if name.isdigit() else name for name in path.split("__")]
        for name in folders:
            at = at[name]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return config


def test_members_and_defaults() -> None:
    config = parse_config(config_of())
    assert config.trace_path == Path("/trace.jsonl")
    assert config.trace_type == "qwen_bailian"
    assert config.output_path == Path("/result")
    assert config.settings.mode is EvictionMode.INSTANCE_ROUGH
    assert config.settings.batch == 30
    (group,) = config.settings.groups
    assert group.quota == 6000
    assert group.instances == (ReferenceInstance("instance", ReferencePolicy.RANDOM_LRU, 0.25),)
    config = parse_config(config_of(eviction_params={"eviction_mode": 1}))
    assert config.settings.batch == 100


def test_with_eviction_by_tier_the_first_storage_is_the_capacity() -> None:
    config = parse_config(config_of(instance_groups__0__hierarchical_eviction_enabled=True))
    assert config.settings.groups[0].quota == 38


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"trace_file_path": None}, "trace_file_path"),
        ({"trace_file_path": 5}, "trace_file_path"),
        ({"eviction_params__eviction_mode": 0}, "eviction_params.eviction_mode"),
        ({"eviction_params__eviction_mode": True}, "eviction_params.eviction_mode"),
        ({"eviction_params__eviction_batch_size_per_instance": 0}, "eviction_batch_size_per_instance"),
        ({"instance_groups": {}}, "instance_groups"),
        ({"instance_groups": []}, "instance_groups"),
        ({"instance_groups__0__storages": []}, "instance_groups[0].storages"),
        ({"instance_groups__0__quota_capacity": 1.5}, "instance_groups[0].quota_capacity"),
        ({"instance_groups__0__used_percentage": "1"}, "instance_groups[0].used_percentage"),
        ({"instance_groups__0__tier_strategy": {}}, "instance_groups[0].tier_strategy"),
        (
            {"instance_groups__0__instances__0__eviction_policy_type": "ttl"},
            "instance_groups[0].instances[0].eviction_policy_type",
        ),
        (
            {"instance_groups__0__instances__0__instance_id": "../x"},
            "instance_groups[0].instances[0].instance_id",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DomainError) as caught:
        parse_config(config_of(**changes))
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.field == field


def test_no_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DomainError, match="no JSON"):
        load_config(tmp_path / "config.json")


def test_the_table_of_lookups(tmp_path: Path) -> None:
    """Worked out by hand: instances share 4 blocks; when they have more, 2 blocks leave each of them."""
    instances = (TraceInstance("a", 16), TraceInstance("b", 16), TraceInstance("silent", 16))
    turns = [
        Turn([1, 2], 100, instance=0),
        Turn([7, 8], 150, instance=1),
        Turn([1, 2, 3], 200, instance=0, skip_n=1, event=Event.READ),
        # One block too many: two leave each instance, the oldest ones: 1 and 2, 7 and 8.
        Turn([1, 5], 300, instance=0, event=Event.WRITE),
        Turn([9], 350, instance=1, event=Event.WRITE),
        Turn([1, 5], 400, instance=0, event=Event.READ),
        Turn([7], 500, instance=2, event=Event.WRITE),
    ]
    trace = trace_of(turns, instances)
    settings = ReferenceSettings(
        (
            ReferenceGroup(
                "g", 4, tuple(ReferenceInstance(name, ReferencePolicy.LRU) for name in ("a", "b", "silent"))
            ),
        ),
        EvictionMode.GROUP_ROUGH,
        batch=2,
    )
    summaries = write_hit_rates(trace, settings, tmp_path)
    header = (
        "TimestampUs,CachedBlocksCurrentInstance,CachedBlocksPerInstance,CachedBlocksAllInstance,"
        "InternalReadBlocks,ExternalReadBlocks,TotalReadBlocks,InternalHitBlocks,InternalHitRate,"
        "ExternalHitBlocks,ExternalHitRate,HitRate,AccInternalHitRate,AccExternalHitRate,AccHitRate"
    )
    assert (tmp_path / "a_hit_rates.csv").read_text().splitlines() == [
        header,
        "100, 2, 2;0;0, 2, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0",
        "200, 2, 2;2;0, 4, 1, 2, 3, 1, 0.333333, 1, 0.333333, 0.666667, 0.2, 0.2, 0.4",
        "400, 1, 1;1;0, 2, 0, 2, 2, 0, 0, 0, 0, 0, 0.142857, 0.142857, 0.285714",
    ]
    assert (tmp_path / "b_hit_rates.csv").read_text().splitlines() == [
        header,
        "150, 2, 2;2;0, 4, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_hit_rates.csv", "b_hit_rates.csv"]
    assert [summary.lookups for summary in summaries] == [3, 1, 0]
    assert summaries[2].path is None
    assert summaries[0].hit_rate == pytest.approx(2 / 7)


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "x" * 300])
def test_names_of_a_trace_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    trace = trace_of([Turn([1], 0)], (TraceInstance(name, 16),))
    settings = ReferenceSettings((ReferenceGroup("g", 4, (ReferenceInstance(name, ReferencePolicy.LRU),)),))
    with pytest.raises(DomainError, match="cannot be part of a file's name"):
        write_hit_rates(trace, settings, tmp_path / "result")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_early_leaves_no_table(tmp_path: Path) -> None:
    def cancel(share: float) -> None:
        raise KeyboardInterrupt

    trace = trace_of([Turn([1], 0)])
    settings = ReferenceSettings(
        (ReferenceGroup("g", 4, (ReferenceInstance("i0", ReferencePolicy.LRU),)),),
    )
    with pytest.raises(KeyboardInterrupt):
        write_hit_rates(trace, settings, tmp_path, on_progress=cancel)
    assert list(tmp_path.iterdir()) == []


def test_the_command_runs_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace of Qwen-Bailian: one instance, called "instance", keys chained."""
    trace = tmp_path / "trace.jsonl"
    records = [{"hash_ids": ids, "timestamp": at} for at, ids in enumerate(([5, 6], [5, 6, 7], [6, 5]))]
    trace.write_text(
        "".join(
            json.dumps(
                {
                    "chat_id": at,
                    "parent_chat_id": -1,
                    "input_length": 16 * len(record["hash_ids"]),
                    "output_length": 1,
                    "type": "text",
                    "turn": 1,
                    **record,
                }
            )
            + "\n"
            for at, record in enumerate(records)
        )
    )
    output = tmp_path / "result"
    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of(trace_file_path=str(trace), output_result_path=str(output))))
    assert main([str(config)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["instance_id"], told["lookups"], told["read_blocks"]) == ("instance", 3, 7)
    assert told["external_hit_blocks"] == 2
    with (output / "instance_hit_rates.csv").open() as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    assert [row["ExternalHitBlocks"] for row in rows] == ["0", "2", "0"]
    assert [row["CachedBlocksAllInstance"] for row in rows] == ["2", "3", "5"]
    assert [path.name for path in output.iterdir()] == ["instance_hit_rates.csv"]


def test_the_command_says_what_is_wrong_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(config_of(trace_type="csv", output_result_path=str(tmp_path))))
    assert main([str(config)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: trace_type")


@needs_shared
def test_a_shared_trace_by_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OPTIMIZER.md 2: lru, batches of 100, 10,000 blocks; it does not look at times."""
    config = config_of(
        trace_file_path=str(SHARED / "mooncake_conversation_trace.jsonl"),
        trace_type="mooncake",
        output_result_path=str(tmp_path),
        eviction_params={"eviction_mode": 1},
        instance_groups__0__quota_capacity=20_000,
        instance_groups__0__instances__0__eviction_policy_type="lru",
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main([str(tmp_path / "config.json")]) == 0
    assert json.loads(capsys.readouterr().out)["external_hit_blocks"] == 60_308
