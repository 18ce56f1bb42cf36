"""The files that `--png`, `--csv` and `--html` ask for."""

from __future__ import annotations

import argparse

from ..answers.export import curves_csv
from ..report import Report, Scheme, curves_png, report_html, span_text
from ..trace import Trace
from .console import write_file


def write_files(options: argparse.Namespace, made: Report) -> None:
    """Those that were asked for. Raises OSError, and DomainError where there is nothing to draw."""
    if options.png:
        scheme = Scheme.DARK if options.dark else Scheme.LIGHT
        png = curves_png(
            made.lines, title=made.title, block_bytes=made.block_bytes, quota=made.quota, scheme=scheme
        )
        write_file(options, options.png, png)
    if options.csv:
        pairs = [(line.label, line.curve) for line in made.lines]
        write_file(options, options.csv, curves_csv(pairs, block_bytes=made.block_bytes))
    if options.html:
        write_file(options, options.html, report_html(made))


def facts_of(trace: Trace) -> tuple[tuple[str, str], ...]:
    """What a report says of its trace."""
    header = trace.header
    sizes = sorted({instance.block_tokens for instance in header.instances})
    facts = [
        ("trace", header.name),
        ("format", header.format),
        ("requests", f"{trace.requests:,}"),
        ("blocks", f"{trace.blocks:,}"),
        ("distinct blocks", f"{trace.distinct_blocks:,}"),
        ("span", span_text(trace.span_us)),
        ("instances", f"{len(header.instances):,}"),
        ("tokens of a block", ", ".join(str(size) for size in sizes[:5])),
    ]
    if header.bad_line_count:
        facts.append(("bad lines skipped", f"{header.bad_line_count:,}"))
    return tuple(facts)


def notes_of(trace: Trace) -> tuple[str, ...]:
    """What a reader of figures made from the trace should know of its reading."""
    header = trace.header
    bad = tuple(f"Skipped line {line.number}: {line.reason}" for line in header.bad_lines[:5])
    return (*header.notes, *bad)
