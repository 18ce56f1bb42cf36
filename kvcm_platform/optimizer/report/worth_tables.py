"""The rows and sentences of a report about money: what capacities, tiers and scenarios are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcm_platform.core.sizes import sized

from ..roi import BestCapacity, Scenario
from .axis import WIDEST, short
from .content import Table, Worth

_ROWS = 14


def worth_sentences(worth: Worth) -> list[str]:
    best, currency = worth.best, worth.roi.cost.currency
    if best.index < 0:
        return [
            "No capacity saves what it costs: storage would have to cost less than "
            f"{money(best.highest_price)} {currency} a GiB-month."
        ]
    return [
        f"Best capacity: {sized(round(best.capacity_bytes))}, hit rate {best.hit_rate:.1%}. It saves "
        f"{money(best.saved_money_month)} {currency} a month and costs {money(best.storage_money_month)}: "
        f"{money(best.net_money_month)} are left.",
        f"{_certainty(best, currency)} The best one pays up to {_price(best.break_even_price)} {currency} a "
        f"GiB-month; over {money(best.highest_price)} none does.",
    ]


def _certainty(best: BestCapacity, currency: str) -> str:
    if best.most_net_money_month <= best.net_money_month * (1 + 1e-9):
        return "No other capacity is worth more."
    return f"No other capacity is worth more than {money(best.most_net_money_month)} {currency}."


def worth_table(worth: Worth) -> Table:
    roi = worth.roi
    above = np.flatnonzero(roi.capacity_bytes > float(roi.capacity_bytes[-1]) / WIDEST)
    step = max(1, len(above) // _ROWS)
    shown = sorted({*above[::step].tolist(), *([worth.best.index] if worth.best.index >= 0 else [])})
    rows = tuple(
        (
            sized(round(float(roi.capacity_bytes[i]))),
            f"{roi.hit_rate[i]:.2%}",
            short(float(roi.saved_gpu_hours_month[i])),
            money(float(roi.saved_money_month[i])),
            money(float(roi.storage_money_month[i])),
            money(float(roi.net_money_month[i])),
            money(float(roi.break_even_price[i])),
        )
        for i in shown
    )
    columns = ("capacity", "hit rate", "GPU hours saved", "saved", "storage", "left", "pays up to, GiB-month")
    return Table("Worth by capacity", columns, rows, (True,) * len(columns))


def tiers_table(worth: Worth) -> Table:
    """Whether each tier keeps up, at the best capacity (the largest where none is)."""
    index = worth.best.index if worth.best.index >= 0 else len(worth.roi.capacity_bytes) - 1
    rows = []
    for share in worth.roi.tiers:
        bandwidth = share.tier.bandwidth_bytes_per_second
        needed = float(share.needed_bytes_per_second[index])
        even = float(share.break_even_bytes_per_second[index])
        rows.append(
            (
                share.tier.name,
                sized(round(float(share.held_bytes[index]))),
                f"{rate_text(needed)}",
                rate_text(even) if np.isfinite(even) else "none is enough",
                rate_text(bandwidth) if bandwidth else "not known",
                _verdict(bandwidth, needed, even),
            )
        )
    columns = ("tier", "holds", "hits ask for", "faster than computing from", "delivers", "")
    return Table("Bandwidth", columns, tuple(rows), (False, True, True, True, True, False))


def _verdict(bandwidth: float, needed: float, even: float) -> str:
    if not bandwidth:
        return "not checked"
    if bandwidth < needed:
        return f"delivers {100 * bandwidth / needed:.3g}% of the hits"
    return "in time" if bandwidth >= even else "delivers, but later than computing would"


def scenario_table(scenarios: Sequence[Scenario], currency: str) -> Table:
    rows = tuple(
        (
            found.name,
            "yes" if found.is_worth else "no",
            f"{found.requests:,}",
            f"{found.hit_rate:.1%}",
            sized(round(found.capacity_bytes)),
            money(found.saved_money_month),
            money(found.storage_money_month),
            money(found.net_money_month),
            found.reason,
        )
        for found in scenarios
    )
    columns = ("scenario", "worth it", "requests", "hit rate", "capacity", "saved", "storage", "left", "why")
    numeric = (False, False, True, True, True, True, True, True, False)
    return Table("Which scenarios are worth a cache", columns, rows, numeric, f"{currency} a month")


def money(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def _price(value: float) -> str:
    """Small ones need their digits, large ones no power of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def rate_text(bytes_per_second: float) -> str:
    return f"{sized(round(bytes_per_second))}/s"
