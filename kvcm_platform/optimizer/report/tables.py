"""The rows and sentences of a report: the same in HTML and in text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcm_platform.core.sizes import sized

from ..answers.definition import definition_text, totals_text
from ..answers.export import bytes_or_none
from ..answers.hot_prefixes import HotPrefixes
from ..answers.shape import gap_to_bound, hit_rate_at, index_at, knee
from ..answers.thinning import spread
from ..curve import Curve, Unit
from ..roi import capacity_of_bytes
from .axis import WIDEST, is_dense, span_text
from .content import Line, Quota, Report, Table
from .worth_tables import scenario_table

_ROWS = 14
_PREFIX_ROWS = 40


def points_table(lines: Sequence[Line], block_bytes: float | None) -> Table:
    """Hit rates of all lines that have the first one's unit, at capacities of the one with the fewest points.

    A line's rate is that of its last point within the capacity.
    """
    first = lines[0].curve
    base = min((line.curve for line in lines if _comparable(first, line.curve)), key=_point_count)
    found = knee(base)
    least = int(base.capacities[-1]) // WIDEST if is_dense(base) else 0
    begin = int(np.searchsorted(base.capacities, least))
    shown = [i for i in spread(base, 2 * _ROWS, keep=[found.index] if found else []) if i >= begin]
    sizes = bytes_or_none(base, block_bytes)
    rows = []
    for index in shown:
        capacity = int(base.capacities[index])
        row = [capacity_text(base, capacity)]
        row.append("" if sizes is None else sized(round(float(sizes[index]))))
        row += [_rate_at(line.curve, first, capacity) for line in lines]
        place = index_at(first, capacity)
        row.append(f"{first.token_hit_rate[place]:.2%}" if place >= 0 else "–")
        row.append(f"{int(first.full_hit_requests[place]):,}" if place >= 0 else "–")
        rows.append(tuple(row))
    names = tuple(line.label for line in lines)
    columns = ("capacity", "size", *names, f"tokens, {names[0]}", f"whole requests, {names[0]}")
    return Table("Hit rate by capacity", columns, tuple(rows), (True,) * len(columns))


def _point_count(curve: Curve) -> int:
    return len(curve.capacities)


def _rate_at(curve: Curve, first: Curve, capacity: int) -> str:
    """A dash where the curve has no point so low, or another unit."""
    known = _comparable(first, curve) and index_at(curve, capacity) >= 0
    return f"{hit_rate_at(curve, capacity):.2%}" if known else "–"


def curve_sentences(report: Report) -> list[str]:
    """Knee, what the quota of today reaches, and the gap to the bound, in words."""
    line = next((line for line in report.lines if not line.is_bound), report.lines[0])
    sentences = [f"{line.label}: {totals_text(line.curve)}."]
    found = knee(line.curve)
    if found:
        sentences.append(
            f"Knee: {found.hit_rate:.1%} at {_sized(line.curve, found.capacity, report.block_bytes)}; "
            "from there on more capacity brings less than it did on average."
        )
    sentences += _quota_sentences(report, line.curve, report.quota)
    sentences += _gap_sentences(report, line)
    return sentences


def _quota_sentences(report: Report, curve: Curve, quota: Quota | None) -> list[str]:
    capacity = _quota_capacity(report, curve, quota)
    if quota is None or capacity is None:
        return []
    rates = ", ".join(
        f"{hit_rate_at(curve, capacity * factor):.1%} with {name}"
        for factor, name in ((0.5, "half of it"), (2, "twice"), (4, "four times"))
    )
    return [f"At the {quota.label} of {_sized(curve, int(capacity), report.block_bytes)}: "
            f"{hit_rate_at(curve, capacity):.1%}; {rates}."]  # fmt: skip


def _quota_capacity(report: Report, curve: Curve, quota: Quota | None) -> float | None:
    """The quota in the unit of the curve."""
    if quota is None or curve.definition.policy == "ttl":
        return None
    if quota.size_blocks is not None and curve.definition.unit == Unit.BLOCKS:
        return quota.size_blocks
    if quota.size_bytes is None:
        return None
    return capacity_of_bytes(curve, quota.size_bytes, report.block_bytes)


def _gap_sentences(report: Report, line: Line) -> list[str]:
    bound = next((other for other in report.lines if other.is_bound), None)
    if bound is None or not _comparable(line.curve, bound.curve):
        return []
    capacity = _quota_capacity(report, line.curve, report.quota)
    found = knee(line.curve)
    if capacity is None and found:
        capacity = found.capacity
    index = index_at(bound.curve, capacity or 0)
    if index < 0 or line.curve.blocks != bound.curve.blocks:
        return []
    gap = gap_to_bound(line.curve, bound.curve)
    at = int(gap.capacities[index])
    if gap.gap[index] <= 0:
        return [f"At {capacity_text(line.curve, at)} no policy can hit more than {line.label} does."]
    reached = int(gap.equivalent_capacity[index])
    more = f"; {line.label} needs {capacity_text(line.curve, reached)} for that" if reached else ""
    return [
        f"No policy can hit more than {gap.bound_rate[index]:.1%} at {capacity_text(line.curve, at)}, "
        f"{float(gap.gap[index]) * 100:.1f} points above {line.label}{more}."
    ]


def other_tables(report: Report) -> list[Table]:
    """What follows curves and worth: scenarios, hot prefixes, and the tables that the report was given."""
    tables = list(report.tables)
    if report.prefixes and report.prefixes.nodes:
        tables.insert(0, prefix_table(report.prefixes))
    if report.scenarios:
        currency = report.worth.roi.cost.currency if report.worth else ""
        tables.insert(0, scenario_table(report.scenarios, currency))
    return tables


def prefix_table(found: HotPrefixes) -> Table:
    """The tree in the order of its branches, indented."""
    children: dict[int, list[int]] = {}
    for node in found.nodes:
        children.setdefault(node.parent, []).append(node.id)
    rows: list[tuple[str, ...]] = []
    waiting = [(id_, 0) for id_ in reversed(children.get(-1, []))]
    while waiting and len(rows) < _PREFIX_ROWS:
        id_, level = waiting.pop()
        node = found.nodes[id_]
        name = f"{'· ' * min(level, 12)}{node.first_key}"
        rows.append(
            (
                name,
                node.instance_id,
                f"{node.depth:,}",
                f"{node.blocks:,}",
                f"{node.requests:,}",
                f"{node.request_share:.1%}",
                f"{node.access_share:.1%}",
                f"{node.session_count:,}" if node.session_count else "",
                f"{node.last_use_us / 1e6:,.0f} s",
            )
        )
        waiting += [(child, level + 1) for child in reversed(children.get(id_, []))]
    columns = (
        "first key",
        "instance",
        "depth",
        "blocks",
        "requests",
        "of requests",
        "of accesses",
        "sessions",
        "last use",
    )
    note = f"The {len(rows)} most used of {found.node_count:,} nodes of the tree of prefixes, by branch."
    return Table("Hot prefixes", columns, tuple(rows), (False, False, *(True,) * 7), note)


def note_lines(report: Report) -> list[str]:
    notes = _definitions(report)
    if report.worth:
        cost = report.worth.roi.cost
        notes.append(
            f"Money: {cost.model.title or cost.model.name}, "
            f"{cost.gpu_hour_price:g} {cost.currency} a GPU hour, "
            f"{cost.seconds_per_token * 1e6:.3g} us for a token at the start of a prompt and "
            f"{cost.seconds_per_token_position * 1e9:.3g} ns more for each token before it; storage "
            + ", ".join(f"{t.name} {t.price_per_gib_month:g} {cost.currency} a GiB-month" for t in cost.tiers)
            + f"; the trace of {span_text(report.worth.roi.span_seconds * 1e6)} stands for the whole month."
        )
    return [*notes, *report.notes]


def _definitions(report: Report) -> list[str]:
    """Each way of counting once, with the curves that were counted so."""
    counted: dict[str, list[str]] = {}
    for line in report.lines:
        policy = line.curve.definition.policy
        text = definition_text(line.curve.definition)
        if line.label.lower() == policy:
            text = text.removeprefix(f"{policy}; ")
        counted.setdefault(text, []).append(line.label)
    return [f"{', '.join(labels)}: {text}." for text, labels in counted.items()]


def capacity_text(curve: Curve, capacity: int) -> str:
    """In the unit of the curve."""
    if curve.definition.policy == "ttl":
        return f"{capacity / 1e6:,.4g} s"
    if curve.definition.unit == Unit.BYTES:
        return sized(capacity)
    return f"{capacity:,} block{'' if capacity == 1 else 's'}"


def _sized(curve: Curve, capacity: int, block_bytes: float | None) -> str:
    """In the unit of the curve, with bytes where they are known."""
    text = capacity_text(curve, capacity)
    sizes = bytes_or_none(curve, block_bytes)
    if curve.definition.unit == Unit.BYTES or sizes is None or curve.definition.policy == "ttl":
        return text
    return f"{sized(round(capacity * float(sizes[-1]) / max(1, int(curve.capacities[-1]))))} ({text})"


def _comparable(one: Curve, other: Curve) -> bool:
    kinds = [(curve.definition.unit, curve.definition.policy == "ttl") for curve in (one, other)]
    return kinds[0] == kinds[1]
