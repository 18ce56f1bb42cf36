"""`simulate`: hits of policies at capacities."""

from __future__ import annotations

import argparse

from ..answers.definition import definition_text
from ..curve import Curve, Unit
from ..report import Table, table_text
from .computing import capacities_of, curve_of, policies_of
from .console import print_json, print_text
from .opening import opened


def show(options: argparse.Namespace) -> None:
    """With --json one object a line: policy, capacity_blocks (capacity_bytes with --unit bytes), requests,
    blocks, hit_blocks, hit_rate. Lines come policy by policy, as soon as one is done."""
    policies = policies_of(options)
    trace = opened(options)
    capacities = capacities_of(options, trace)
    for policy in policies:
        curve = curve_of(options, trace, policy, capacities)
        if options.json:
            _print_lines(policy, curve)
        else:
            print_text(f"{definition_text(curve.definition)}\n{table_text(_table(curve))}\n")


def _print_lines(policy: str, curve: Curve) -> None:
    name = _capacity_name(curve)
    for i, capacity in enumerate(curve.capacities.tolist()):
        print_json(
            {
                "policy": policy,
                name: capacity,
                "requests": curve.requests,
                "blocks": curve.blocks,
                "hit_blocks": int(curve.hit_blocks[i]),
                "hit_rate": float(curve.hit_rate[i]),
            }
        )


def _capacity_name(curve: Curve) -> str:
    return "capacity_bytes" if curve.definition.unit == Unit.BYTES else "capacity_blocks"


def _table(curve: Curve) -> Table:
    """With the share of residents that lie behind a hole, of policies that leave any."""
    orphans = curve.series.get("orphan_share")
    rows = tuple(
        (
            f"{int(capacity):,}",
            f"{int(curve.hit_blocks[i]):,}",
            f"{curve.hit_rate[i]:.2%}",
            f"{curve.token_hit_rate[i]:.2%}",
            f"{int(curve.full_hit_requests[i]):,}",
            *([f"{orphans[i]:.2%}"] if orphans is not None else []),
        )
        for i, capacity in enumerate(curve.capacities)
    )
    columns = (
        *(_capacity_name(curve), "hit_blocks", "hit_rate", "token_hit_rate", "full_hit_requests"),
        *(["orphan_share"] if orphans is not None else []),
    )
    return Table("", columns, rows, (True,) * len(columns))
