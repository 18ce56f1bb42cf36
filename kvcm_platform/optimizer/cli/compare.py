"""`compare`: policies side by side, with the clairvoyant bound."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from kvcm_platform.core.errors import invalid

from ..analysis.results import BOUND, curve_label
from ..answers.export import curve_document
from ..report import Line, Report, Table, table_text
from ..report.content import MOST_LINES
from ..report.tables import capacity_text, note_lines
from ..trace import Trace, has_only_turns
from .computing import bound_of, capacities_of, curve_of, policies_of, quota_of
from .console import print_json, print_text
from .files import facts_of, notes_of, write_files
from .opening import opened


def show(options: argparse.Namespace) -> None:
    """A row a capacity, a column a policy; with --json one object: `trace`, `capacities`, and `curves` as
    `answers.export.curve_document` makes them."""
    policies = policies_of(options)
    trace = opened(options)
    capacities = capacities_of(options, trace)
    lines = compared(options, trace, policies, capacities)
    made = Report(
        title=f"Policies: {trace.header.name}",
        lines=tuple(lines),
        facts=facts_of(trace),
        quota=quota_of(options, trace),
        notes=notes_of(trace),
    )
    write_files(options, made)
    if options.json:
        documents = [curve_document(line.label, line.curve) for line in lines]
        print_json({"trace": dict(made.facts), "capacities": capacities, "curves": documents})
    else:
        print_text("\n".join([table_text(_table(lines)), "", *note_lines(made)]))


def compared(
    options: argparse.Namespace, trace: Trace, policies: Sequence[str], capacities: Sequence[int]
) -> list[Line]:
    """A line a policy, and the bound where the trace has one."""
    has_bound = BOUND not in policies and has_only_turns(trace)
    if len(policies) + has_bound > MOST_LINES:
        raise invalid("policy", f"at most {MOST_LINES - 1} beside the bound")
    lines = [
        Line(curve_label(policy), curve_of(options, trace, policy, capacities), is_bound=policy == BOUND)
        for policy in policies
    ]
    if has_bound:
        lines.append(Line(curve_label(BOUND), bound_of(options, trace, capacities), is_bound=True))
    return lines


def _table(lines: Sequence[Line]) -> Table:
    """With the best policy of each row, the bound aside."""
    real = [line for line in lines if not line.is_bound] or list(lines)
    rows = []
    for i, capacity in enumerate(lines[0].curve.capacities):
        best = real[int(np.argmax([line.curve.hit_blocks[i] for line in real]))]
        row = [capacity_text(lines[0].curve, int(capacity))]
        row += [f"{line.curve.hit_rate[i]:.2%}" for line in lines]
        rows.append((*row, best.label))
    columns = ("capacity", *(line.label for line in lines), "best")
    return Table("", columns, tuple(rows), (*(True,) * (len(lines) + 1), False))
