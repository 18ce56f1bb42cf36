"""`ingest`, `generate` and `anonymize`: commands that make traces."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from secrets import token_bytes

from ..generate import Shape, generate_into
from ..report import Table, table_text
from ..trace import Trace
from ..traces import anonymize, summary, summary_to_json
from ..traces.parquet import save_parquet
from .console import bar, note, print_json, print_text
from .opening import read

_LISTED = 20


def ingest_trace(options: argparse.Namespace) -> None:
    _finish(options, read(options, options.trace, options.out))


def generate_trace(options: argparse.Namespace) -> None:
    sizes = {"block_bytes": options.block_bytes} if options.block_bytes else {}
    shape = Shape(instances=options.instances, block_tokens=options.block_tokens, **sizes)
    with bar(options, "generating") as told:
        made = generate_into(options.out, options.requests, seed=options.seed, shape=shape, on_progress=told)
    _finish(options, made)


def anonymize_trace(options: argparse.Namespace) -> None:
    salt = options.salt_file.read_bytes().strip() if options.salt_file else token_bytes(32)
    with bar(options, "hashing") as told:
        done = anonymize(
            options.trace,
            options.out,
            salt=salt,
            output=options.output,
            source_format=options.format,
            block_tokens=options.block_tokens,
            keep_names=options.keep_names,
            keep_times=options.keep_times,
            max_bad_lines=options.max_bad_lines,
            on_progress=told,
        )
    note(options, f"wrote {options.out}, format {done.output}")
    if options.json:
        print_json(asdict(done))
        return
    lines = [f"{done.requests:,} requests, {done.blocks:,} blocks"]
    if done.bad_line_count:
        lines.append(f"{done.bad_line_count:,} bad lines were left out, the first of them:")
        lines += [f"line {line.number}: {line.reason}" for line in done.bad_lines[:_LISTED]]
    print_text("\n".join(lines))


def _finish(options: argparse.Namespace, trace: Trace) -> None:
    note(options, f"wrote {options.out}")
    if options.parquet:
        with bar(options, "parquet") as drawn:
            save_parquet(trace, options.parquet, on_progress=drawn)
        note(options, f"wrote {options.parquet}")
    told = summary(trace)
    if options.json:
        print_json(summary_to_json(told))
        return
    lines = [
        f"{told.name}: {told.format}, {told.requests:,} requests, {told.blocks:,} blocks of which "
        f"{told.distinct_blocks:,} are distinct, {told.span_us / 1e6:,.1f} s, {told.sessions:,} sessions",
        f"{told.input_tokens:,} tokens in, {told.output_tokens:,} out; the longest request has "
        f"{told.longest:,} blocks",
    ]
    for title, parts in (("instance", told.instances), ("type", told.types)):
        rows = tuple(
            (part.name or "(none)", f"{part.requests:,}", f"{part.blocks:,}", f"{part.input_tokens:,}")
            for part in parts[:_LISTED]
        )
        lines += [
            "",
            table_text(Table("", (title, "requests", "blocks", "tokens"), rows, (False, *(True,) * 3))),
        ]
        if len(parts) > _LISTED:
            lines.append(f"and {len(parts) - _LISTED:,} more")
    if told.bad_line_count:
        lines += ["", f"{told.bad_line_count:,} bad lines were skipped, the first of them:"]
        lines += [f"line {line.number}: {line.reason}" for line in told.bad_lines[:_LISTED]]
    lines += [*([""] if told.notes else []), *told.notes]
    print_text("\n".join(lines))
