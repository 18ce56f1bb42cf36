"""Runs as files for people: what a report, a picture and a table are made of. Loads what draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvcm_platform.core.errors import DomainError, invalid
from kvcm_platform.optimizer.analysis.document import quota_places, ranked
from kvcm_platform.optimizer.analysis.results import BOUND, Found, curve_label, ordered
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.answers.export import curves_csv
from kvcm_platform.optimizer.answers.hot_prefixes import HotPrefixes, PrefixNode
from kvcm_platform.optimizer.answers.thinning import thinned
from kvcm_platform.optimizer.curve import curve_from_json
from kvcm_platform.optimizer.report import (
    Line,
    Quota,
    Report,
    Scheme,
    Table,
    Worth,
    curves_png,
    report_html,
    reuse_bars,
)
from kvcm_platform.optimizer.report.content import MOST_LINES
from kvcm_platform.optimizer.report.two_tiers import splits_table
from kvcm_platform.optimizer.roi import Scenario, best_of, cost_from_json, roi

_POINTS = 800
_WINDOWS_SHOWN = 48


@dataclass(frozen=True, slots=True)
class PrintedRun:
    """What a run is called, and what it found. `label` tells it from others in one picture."""

    title: str
    spec: AnalysisSpec
    found: Found
    facts: tuple[tuple[str, str], ...] = ()
    made_at: str = ""
    label: str = ""


def run_csv(runs: Sequence[PrintedRun]) -> str:
    """Every point of every curve, one a line."""
    rows = [(_labelled(run, policy), curve) for run in runs for policy, curve in ordered(run.spec, run.found)]
    return curves_csv(rows)


def run_png(runs: Sequence[PrintedRun], *, title: str, scheme: Scheme, width: int, height: int) -> bytes:
    """Up to MOST_LINES curves over each other. Raises INVALID_ARGUMENT where there is none to draw."""
    lines = _lines(runs)
    if not lines:
        raise invalid("id", "there is no curve to draw yet")
    quota = next((quota for run in runs if (quota := _quota(run)) is not None), None)
    return curves_png(lines, title=title, quota=quota, scheme=scheme, width=width, height=height)


def run_html(run: PrintedRun, *, tables: Sequence[Table] = (), notes: Sequence[str] = ()) -> str:
    """A page that stands alone, with more `tables` before the run's own and `notes` behind them.

    Raises INVALID_ARGUMENT where there is nothing to show yet.
    """
    lines = _lines([run])
    if not lines:
        raise invalid("id", "there is no curve to draw yet")
    said = list(notes)
    worth = _worth(run, said)
    return report_html(
        Report(
            title=run.title,
            lines=lines,
            made_at=run.made_at,
            facts=run.facts,
            quota=_quota(run),
            worth=worth,
            scenarios=_scenarios(run, worth),
            prefixes=_prefixes(run.found.prefixes),
            bars=reuse_bars(run.found.details or {}, run.spec.unit),
            tables=(*tables, *_tables(run.found)),
            notes=tuple(said),
        )
    )


def _labelled(run: PrintedRun, policy: str) -> str:
    return f"{run.label}: {curve_label(policy)}" if run.label else curve_label(policy)


def _lines(runs: Sequence[PrintedRun]) -> tuple[Line, ...]:
    """Those that have a place on the axis of capacity, the first ones where there are too many."""
    found = [
        Line(_labelled(run, policy), thinned(curve, _POINTS), is_bound=policy == BOUND)
        for run in runs
        for policy, curve in ordered(run.spec, run.found)
        if len(curve.capacities) and (policy != "ttl" or "mean_resident" in curve.series)
    ]
    return tuple(found[:MOST_LINES])


def _quota(run: PrintedRun) -> Quota | None:
    places = quota_places(run.spec, run.found)
    if places is None:
        return None
    return Quota(size_bytes=places["bytes"], size_blocks=places["blocks"], label="quota")


def _worth(run: PrintedRun, notes: list[str]) -> Worth | None:
    """Of the first policy."""
    if run.spec.cost is None:
        return None
    for policy, curve in ordered(run.spec, run.found):
        if policy in (BOUND, "ttl"):
            continue
        try:
            worth = roi(curve, cost_from_json(run.spec.cost))
            return Worth(curve_label(policy), worth, best_of(curve, worth))
        except DomainError as error:
            notes.append(f"What it is worth cannot be said: {error.message}")
            return None
    return None


def _scenarios(run: PrintedRun, worth: Worth | None) -> tuple[Scenario, ...]:
    """Instances, or types where there is one instance only."""
    if worth is None:
        return ()
    found = ranked(run.found, "by_instance", worth.roi.cost)
    return tuple(found if len(found) > 1 else ranked(run.found, "by_type", worth.roi.cost))


def _prefixes(data: Mapping[str, Any] | None) -> HotPrefixes | None:
    if data is None:
        return None
    nodes = [PrefixNode(**{**node, "first_key": int(node["first_key"])}) for node in data["nodes"]]
    return HotPrefixes(**{**data, "nodes": tuple(nodes)})


def _tables(found: Found) -> tuple[Table, ...]:
    details = found.details or {}
    tables = []
    windows = [
        (window, curve_from_json(window["curve"]))
        for window in (details.get("windows") or [])[:_WINDOWS_SHOWN]
    ]
    if windows:
        working = {row["at_us"]: row["blocks"] for row in details.get("working_set") or []}
        rows = tuple(
            (
                f"{window['begin_us'] / 1e6:,.0f} s",
                f"{curve.requests:,}",
                f"{curve.blocks:,}",
                f"{curve.unlimited_hit_blocks / max(1, curve.blocks):.1%}",
                f"{working.get(window['begin_us'], 0):,}",
            )
            for window, curve in windows
        )
        columns = ("from", "requests", "blocks", "hit rate without limit", "distinct blocks used")
        tables.append(Table("Over time", columns, rows, (False, True, True, True, True)))
    splits = details.get("tiers") or []
    if splits and "lru" in found.curves:
        tables.append(splits_table(splits, found.curves["lru"]))
    return tuple(tables)
