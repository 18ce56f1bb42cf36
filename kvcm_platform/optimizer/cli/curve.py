"""`curve`: hit rate at every capacity, in one pass."""

from __future__ import annotations

import argparse
from dataclasses import replace

from kvcm_platform.core.errors import invalid

from ..analysis.capacities import capacity_resolve, sizes_of
from ..answers.export import curve_document
from ..answers.thinning import thinned
from ..curve import Curve, Touch, Unit
from ..curves import TierSplit, lru_curve, tier_capacities, tiers, ttl_curve
from ..report import Line, Report, Table, report_text
from ..report.tables import capacity_text
from ..trace import Trace
from .computing import bound_of, capacities_of, quota_of
from .console import bar, print_json, print_text
from .files import facts_of, notes_of, write_files
from .opening import opened

_JSON_POINTS = 4000


def show(options: argparse.Namespace) -> None:
    """With --json one object: `trace`, `curves` as `answers.export.curve_document` makes them, `tiers`."""
    trace = opened(options)
    splits = _splits(options, trace)
    lines = [Line(_label(options), _curve(options, trace))]
    if options.bound:
        wanted = capacities_of(options, trace) if options.capacities else None
        lines.append(Line("clairvoyant bound", bound_of(options, trace, wanted), is_bound=True))
    made = Report(
        title=f"Hit rate by capacity: {trace.header.name}",
        lines=tuple(lines),
        facts=facts_of(trace),
        quota=quota_of(options, trace),
        tables=(_split_table(splits, lines[0].curve),) if splits else (),
        notes=notes_of(trace),
    )
    write_files(options, made)
    if options.json:
        documents = [curve_document(line.label, thinned(line.curve, _JSON_POINTS)) for line in lines]
        found = {"tiers": [split.to_json() for split in splits]} if splits else {}
        print_json({"trace": dict(made.facts), "curves": documents, **found})
    else:
        print_text(report_text(replace(made, title=trace.header.name)))


def _label(options: argparse.Namespace) -> str:
    if options.policy == "ttl":
        return "TTL"
    return "LRU" if options.touch == Touch.DEEP else "LRU, root first"


def _curve(options: argparse.Namespace, trace: Trace) -> Curve:
    if options.policy == "ttl":
        return _ttl(options, trace)
    if options.ttls:
        raise invalid("ttls", "they are for --policy ttl")
    wanted = capacities_of(options, trace) if options.capacities else None
    with bar(options, "lru") as told:
        return lru_curve(trace, wanted, touch=Touch(options.touch), unit=Unit(options.unit), on_progress=told)


def _ttl(options: argparse.Namespace, trace: Trace) -> Curve:
    if options.capacities:
        raise invalid("capacities", "a TTL has times: give --ttls")
    try:
        given = [round(float(seconds) * 1e6) for seconds in options.ttls.split(",")] if options.ttls else None
    except (ValueError, OverflowError) as error:
        raise invalid("ttls", f"comma-separated seconds, not {options.ttls!r}") from error
    with bar(options, "ttl") as told:
        return ttl_curve(trace, given, on_progress=told)


def _splits(options: argparse.Namespace, trace: Trace) -> list[TierSplit]:
    """Of --tiers, from a pass of their own at just the capacities that they need."""
    if not options.tiers:
        return []
    if options.policy != "lru":
        raise invalid("tiers", "they follow from the curve of lru alone")
    sizes = sizes_of(trace)
    pairs = []
    for text in options.tiers.split(","):
        first, plus, second = text.partition("+")
        if not plus:
            raise invalid("tiers", f"pairs of capacities (512GiB+4TiB), not {text!r}")
        one, other = (
            capacity_resolve(part.strip(), sizes, options.unit, "tiers") for part in (first, second)
        )
        pairs.append((one, other))
    with bar(options, "tiers") as told:
        curve = lru_curve(
            trace,
            tier_capacities(pairs),
            touch=Touch(options.touch),
            unit=Unit(options.unit),
            on_progress=told,
        )
    return tiers(curve, pairs)


def _split_table(splits: list[TierSplit], curve: Curve) -> Table:
    rows = tuple(
        (
            capacity_text(curve, split.capacity1),
            capacity_text(curve, split.capacity2),
            f"{split.tier1.blocks / max(1, curve.blocks):.2%}",
            f"{split.tier2.blocks / max(1, curve.blocks):.2%}",
            f"{split.demoted_blocks:,}",
            f"{split.inclusive_tier2.blocks / max(1, curve.blocks):.2%}",
        )
        for split in splits
    )
    columns = (
        "tier 1",
        "tier 2",
        "hits of tier 1",
        "hits of tier 2",
        "blocks moved down",
        "tier 2, inclusive",
    )
    note = (
        "Blocks that leave tier 1 go to tier 2 and come back when they are used; inclusive: every use "
        "refreshes both. Not for a tier 2 that sees the misses of tier 1 only."
    )
    return Table("Two tiers", columns, rows, (True,) * len(columns), note)
