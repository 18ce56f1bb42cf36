"""`report`: everything that is said of a trace, in one directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kvcm_platform.core.errors import invalid

from ..analysis.results import BOUND, curve_label
from ..answers.export import curve_document, curves_csv
from ..answers.hot_prefixes import hot_prefixes, prefixes_to_json
from ..answers.shape import hit_rate_at
from ..answers.thinning import at_points, curves_merge, thinned
from ..curve import Curve, Events, Touch, Unit
from ..curves import LruAnalysis, Window, lru_analysis, lru_curve
from ..report import Line, Report, Scheme, Table, Worth, curves_png, report_html, report_text, reuse_bars
from ..report.content import MOST_LINES
from ..roi import (
    CostModel,
    best_of,
    exact_best,
    rank,
    roi,
    roi_to_json,
    scenario_to_json,
    with_block_bytes,
)
from ..trace import Trace, has_only_turns
from .computing import bound_of, capacities_of, curve_of, policies_of, quota_of
from .console import bar, print_json, print_text, write_file
from .files import facts_of, notes_of
from .opening import opened
from .worth import cost_of

_JSON_POINTS = 2000


def write(options: argparse.Namespace) -> None:
    """Writes report.html, curves.png, curves.csv and report.json into --out; says the report as text, or the
    names of the files with --json."""
    policies = policies_of(options)
    cost = cost_of(options) if options.model or options.cost_model else None
    trace = opened(options)
    if cost:
        trace = with_block_bytes(trace, cost.model)
    made, found = _made(options, trace, policies, cost)
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(line.label, line.curve) for line in made.lines]
    files: dict[str, str | bytes] = {
        "report.html": report_html(made),
        "curves.png": curves_png(made.lines, title=made.title, quota=made.quota, scheme=Scheme.LIGHT),
        "curves.csv": curves_csv(pairs),
        "report.json": orjson.dumps(_document(made, found), option=orjson.OPT_SERIALIZE_NUMPY),
    }
    for name, content in files.items():
        write_file(options, folder / name, content)
    if options.json:
        print_json({"files": [str(folder / name) for name in files]})
    else:
        print_text(report_text(made))


def _made(
    options: argparse.Namespace, trace: Trace, policies: list[str], cost: CostModel | None
) -> tuple[Report, LruAnalysis | None]:
    capacities = capacities_of(options, trace)
    has_turns = has_only_turns(trace)
    found = _analysed(options, trace) if has_turns else None
    lines = []
    if found:
        lines.append(Line("lru", _with_best(options, trace, found.total, cost)))
    for policy in policies:
        if policy == "lru" and found and Events(options.events) is Events.TURN and not options.delay:
            continue
        curve = curve_of(options, trace, policy, capacities)
        lines.append(Line(curve_label(policy), curve, is_bound=policy == BOUND))
    if has_turns and BOUND not in policies:
        lines.append(Line(curve_label(BOUND), bound_of(options, trace), is_bound=True))
    if len(lines) > MOST_LINES:
        raise invalid("policy", f"at most {MOST_LINES} lines in one report")
    worth = None
    if cost:
        values = roi(lines[0].curve, cost)
        worth = Worth(lines[0].label, values, best_of(lines[0].curve, values))
    report = Report(
        title=options.title or f"Cache report: {trace.header.name}",
        lines=tuple(lines),
        facts=facts_of(trace),
        quota=quota_of(options, trace),
        worth=worth,
        scenarios=tuple(_ranked(found, cost, worth)) if found and cost and worth else (),
        prefixes=hot_prefixes(trace, nodes=options.prefixes),
        bars=reuse_bars(found.to_json(), options.unit) if found else (),
        tables=_tables(found, worth) if found else (),
        notes=notes_of(trace),
    )
    return report, found


def _with_best(options: argparse.Namespace, trace: Trace, total: Curve, cost: CostModel | None) -> Curve:
    """The curve with the capacity that is worth most of all among its points."""
    if cost is None or options.unit != Unit.BLOCKS:
        return total

    def compute(capacities: Sequence[int] | None) -> Curve:
        if capacities is None:
            return total
        with bar(options, "lru") as told:
            return lru_curve(trace, capacities, touch=Touch(options.touch), on_progress=told)

    curve, best = exact_best(compute, cost)
    if best.index < 0:
        return total
    return curves_merge([total, at_points(curve, np.array([best.index]))])


def _analysed(options: argparse.Namespace, trace: Trace) -> LruAnalysis:
    with bar(options, "lru") as told:
        return lru_analysis(trace, touch=Touch(options.touch), unit=Unit(options.unit), on_progress=told)


def _ranked(found: LruAnalysis, cost: CostModel, worth: Worth) -> list[Any]:
    """Instances, or types where there is one instance only, within a shared cache of the best capacity."""
    parts = found.by_instance if len(found.by_instance) > 1 else found.by_type
    parts = {name or "(no type)": curve for name, curve in parts.items() if curve.requests}
    if len(parts) < 2:
        return []
    index = worth.best.index if worth.best.index >= 0 else len(found.total.capacities) - 1
    return rank(parts, cost, shared_capacity=int(found.total.capacities[index]))


def _tables(found: LruAnalysis, worth: Worth | None) -> tuple[Table, ...]:
    """Windows at the best capacity (without costs: at the largest), and how large the working set was."""
    index = worth.best.index if worth and worth.best.index >= 0 else -1
    capacity = int(found.total.capacities[index])
    sets = {one.at_us: one.blocks for one in found.working_set}
    rows = tuple(_window_row(window, capacity, sets) for window in found.windows if window.curve.requests)
    if not rows:
        return ()
    columns = ("from", "requests", "blocks", "distinct blocks", "hit rate", "without limit")
    note = f"Hit rate with {capacity:,} {found.total.definition.unit}; the cache keeps what came before."
    return (Table("Over time", columns, rows, (True,) * len(columns), note),)


def _window_row(window: Window, capacity: int, sets: dict[int, int]) -> tuple[str, ...]:
    curve = window.curve
    return (
        f"{window.begin_us / 1e6:,.0f} s",
        f"{curve.requests:,}",
        f"{curve.blocks:,}",
        f"{sets[window.begin_us]:,}" if window.begin_us in sets else "",
        f"{hit_rate_at(curve, capacity):.1%}",
        f"{curve.unlimited_hit_blocks / max(1, curve.blocks):.1%}",
    )


def _document(made: Report, found: LruAnalysis | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "title": made.title,
        "trace": dict(made.facts),
        "curves": [curve_document(line.label, thinned(line.curve, _JSON_POINTS)) for line in made.lines],
        "scenarios": [scenario_to_json(scenario) for scenario in made.scenarios],
        "notes": list(made.notes),
    }
    if made.worth:
        document["worth"] = roi_to_json(made.worth.roi, made.worth.best)
    if made.prefixes:
        document["prefixes"] = prefixes_to_json(made.prefixes)
    if found:
        document["analysis"] = {name: part for name, part in found.to_json().items() if name not in {"total"}}
    return document
