"""`curve`: hit rate at every capacity, in one pass."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from kvcm_platform.core.errors import invalid

from ..analysis.capacities import capacity_resolve, sizes_of
from ..analysis.results import BOUND, curve_label
from ..answers.export import curve_document
from ..answers.thinning import thinned
from ..curve import Curve, Touch, Unit
from ..curves import lru_curve, tier_capacities, tiers, ttl_curve
from ..report import Line, Report, report_text
from ..report.two_tiers import splits_table
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
        lines.append(Line(curve_label(BOUND), bound_of(options, trace, wanted), is_bound=True))
    made = Report(
        title=f"Hit rate by capacity: {trace.header.name}",
        lines=tuple(lines),
        facts=facts_of(trace),
        quota=quota_of(options, trace),
        tables=(splits_table(splits, lines[0].curve),) if splits else (),
        notes=notes_of(trace),
    )
    write_files(options, made)
    if options.json:
        documents = [curve_document(line.label, thinned(line.curve, _JSON_POINTS)) for line in lines]
        found = {"tiers": splits} if splits else {}
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


def _splits(options: argparse.Namespace, trace: Trace) -> list[dict[str, Any]]:
    """`TierSplit.to_json` of --tiers, from a pass of their own at just the capacities that they need."""
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
    return [split.to_json() for split in tiers(curve, pairs)]
