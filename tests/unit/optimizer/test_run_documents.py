"""What a run's documents say of instances and types: parts of one cache, not caches of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcm_platform.optimizer.analysis.document import ranked, worth_document
from kvcm_platform.optimizer.analysis.plan import JobPlan, Part, plan_to_json
from kvcm_platform.optimizer.analysis.printed import PrintedRun, run_html
from kvcm_platform.optimizer.analysis.results import Found, found_of
from kvcm_platform.optimizer.analysis.spec import spec_from_json, spec_to_json
from kvcm_platform.optimizer.analysis.work import analyse
from kvcm_platform.optimizer.curve import curve_to_json
from kvcm_platform.optimizer.curves import lru_curve
from kvcm_platform.optimizer.generate import Shape, generate_into
from kvcm_platform.optimizer.roi import (
    GIB,
    PRESETS,
    CostModel,
    ModelCost,
    StorageTier,
    best_capacity,
    cost_to_json,
)

from .curves_by_hand import curve

# 5 s a token of 10 a block, 3 a GPU hour: a hit block in an hour's trace saves 30.4375 a month.
COST = CostModel(
    model=ModelCost("by hand", 1000, 50.0, 0.0),
    gpu_hour_price=3.0,
    effective_flops=10.0,
    tiers=(StorageTier("disk", 10.0),),
)
SAVED = 5 * 10 / 3600 * 3 * 730.5


def found() -> Found:
    """Best is 10 GiB: 40 hits for 100; 80 GiB bring one more for 700."""
    parts = {
        "chat": curve([10, 80], [30, 30], block_bytes=GIB, distinct_blocks=20),
        "batch": curve([10, 80], [10, 11], block_bytes=GIB, distinct_blocks=60),
    }
    return Found(
        {"lru": curve([10, 80], [40, 41], block_bytes=GIB, distinct_blocks=80)},
        {
            "by_instance": {name: curve_to_json(part) for name, part in parts.items()},
            "by_type": {},
            "reuse_time": {"edges": [1_000_000], "counts": [40]},
        },
        None,
    )


def test_parts_are_ranked_within_the_best_cache_for_all() -> None:
    chat, batch = ranked(found(), "by_instance", COST)

    assert [chat.name, batch.name] == ["chat", "batch"]
    # 10 GiB at 10 each, by distinct blocks: a quarter and three quarters.
    assert [chat.storage_money_month, batch.storage_money_month] == pytest.approx([25, 75])
    assert [chat.saved_money_month, batch.saved_money_month] == pytest.approx([30 * SAVED, 10 * SAVED])
    assert ranked(found(), "by_type", COST) == []
    document = worth_document(found(), COST)
    assert [one["name"] for one in document["by_instance"]] == ["chat", "batch"]
    assert document["curves"]["lru"]["best"]["capacity"] == 10


def test_the_page_of_a_run_shows_them_and_its_histograms() -> None:
    spec = spec_from_json({"policies": ["lru"], "cost": cost_to_json(COST)})
    page = run_html(PrintedRun("a run", spec, found()))

    for words in (
        "Which scenarios are worth a cache",
        "chat",
        "Time between two uses",
        "Best capacity: 10 GiB",
    ):
        assert words in page


def test_a_run_knows_the_best_of_all_capacities(tmp_path: Path) -> None:
    """Beyond 256 blocks the one pass has no point at every capacity: between them is looked, too."""
    trace = generate_into(tmp_path / "trace", 4000, seed=3, shape=Shape(system_prompts=200))
    cost = CostModel(PRESETS["llama-3.1-8b"], tiers=(StorageTier("disk", 0.73),))
    spec = spec_from_json({"policies": ["lru"], "cost": cost_to_json(cost)})
    order = {
        "trace": str(tmp_path / "trace"),
        "spec": spec_to_json(spec),
        "plan": plan_to_json(JobPlan(Part.LRU, "lru", (), "lru", 1, 1.0)),
    }
    document = worth_document(found_of([analyse(order, lambda share: None)]), cost)
    every = best_capacity(lru_curve(trace, range(1, trace.distinct_blocks + 1)), cost)

    assert every.capacity > 256
    assert document["curves"]["lru"]["best"]["capacity"] == every.capacity
    assert document["curves"]["lru"]["best"]["net_money_month"] == pytest.approx(every.net_money_month)
