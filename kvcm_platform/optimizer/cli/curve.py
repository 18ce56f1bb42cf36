"""`curve`: hit rate at every capacity, in one pass."""

from __future__ import annotations

import argparse
from dataclasses import replace

from kvcm_platform.core.errors import invalid

from ..answers.export import curve_document
from ..answers.thinning import thinned
from ..curve import Curve, Touch, Unit
from ..curves import lru_curve, ttl_curve
from ..report import Line, Report, report_text
from ..trace import Trace
from .computing import bound_of, capacities_of, quota_of
from .console import bar, print_json, print_text
from .files import facts_of, notes_of, write_files
from .opening import opened

_JSON_POINTS = 4000


def show(options: argparse.Namespace) -> None:
    """With --json one object: `trace` and `curves`, as `answers.export.curve_document` makes them."""
    trace = opened(options)
    lines = [Line(_label(options), _curve(options, trace))]
    if options.bound:
        wanted = capacities_of(options, trace) if options.capacities else None
        lines.append(Line("clairvoyant bound", bound_of(options, trace, wanted), is_bound=True))
    made = Report(
        title=f"Hit rate by capacity: {trace.header.name}",
        lines=tuple(lines),
        facts=facts_of(trace),
        quota=quota_of(options, trace),
        notes=notes_of(trace),
    )
    write_files(options, made)
    if options.json:
        documents = [curve_document(line.label, thinned(line.curve, _JSON_POINTS)) for line in lines]
        print_json({"trace": dict(made.facts), "curves": documents})
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
