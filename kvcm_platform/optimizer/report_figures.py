"""What scheduled reports are compared by, and whether one says something else than the one before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kvcm_platform.core.sizes import sized


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """The headline of one report, of the first policy asked for. None = the run does not say it.

    `hit_rate` is of blocks at the quota; without one `knee_hit_rate` is compared. `best_capacity_bytes` is
    where most money is left; without a cost model the knee is compared, in the unit of the curve.
    """

    policy: str
    quota_bytes: int = 0
    hit_rate: float | None = None
    token_hit_rate: float | None = None
    unlimited_hit_rate: float | None = None
    knee_capacity: int | None = None
    knee_hit_rate: float | None = None
    unit: str = "blocks"
    best_capacity_bytes: float | None = None
    net_money_month: float | None = None
    requests: int = 0
    blocks: int = 0
    span_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReportChange:
    """Differences to the report before, now minus then; None where one of the two does not say it."""

    hit_rate: float | None
    best_capacity_ratio: float | None
    """Of the one before: 0.1 = a tenth more."""
    is_changed: bool
    sentence: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def figures_from_json(data: Mapping[str, Any]) -> ReportFigures:
    """Members that this version does not know are passed over."""
    known = ReportFigures.__dataclass_fields__
    return ReportFigures(**{name: value for name, value in data.items() if name in known})


def figures_of(summary: Mapping[str, Any], facts: Mapping[str, Any]) -> ReportFigures:
    """Out of a run's summary (analysis.summary.summarise) and what is known of its trace."""
    row: Mapping[str, Any] = next(iter(summary["policies"]), {"policy": ""})
    best = row.get("best") or {}
    turn = row.get("knee") or {}
    return ReportFigures(
        policy=str(row["policy"]),
        quota_bytes=int(summary.get("quota_bytes") or 0),
        hit_rate=row.get("hit_rate_at_quota"),
        token_hit_rate=row.get("token_hit_rate_at_quota"),
        unlimited_hit_rate=summary.get("unlimited_hit_rate"),
        knee_capacity=turn.get("capacity"),
        knee_hit_rate=turn.get("hit_rate"),
        unit=str(row.get("unit", "blocks")),
        best_capacity_bytes=best.get("capacity_bytes"),
        net_money_month=best.get("net_money_month"),
        requests=int(facts.get("requests") or 0),
        blocks=int(facts.get("blocks") or 0),
        span_seconds=float(facts.get("span_us") or 0) / 1e6,
    )


def change_between(
    before: ReportFigures, now: ReportFigures, *, hit_rate_threshold: float, capacity_threshold: float
) -> ReportChange:
    """A change is a hit rate, or a best capacity, that moved by its threshold or more.

    Hit rates at quotas are compared whatever the quotas were: that one was changed is a change worth seeing.
    """
    rates = _pair(before, now, ("hit_rate", "knee_hit_rate"))
    sizes = _pair(before, now, ("best_capacity_bytes", "knee_capacity"))
    rate = None if rates is None else rates[1] - rates[0]
    ratio = None if sizes is None or not sizes[0] else sizes[1] / sizes[0] - 1
    moved = [
        rate is not None and abs(rate) >= hit_rate_threshold - _ROUNDING,
        ratio is not None and abs(ratio) >= capacity_threshold - _ROUNDING,
    ]
    return ReportChange(rate, ratio, any(moved), _sentence(before, now, rates, sizes))


_ROUNDING = 1e-9


def _pair(before: ReportFigures, now: ReportFigures, names: tuple[str, ...]) -> tuple[float, float] | None:
    """Of the first member that both have."""
    for name in names:
        old, new = getattr(before, name), getattr(now, name)
        if old is not None and new is not None and (name != "knee_capacity" or before.unit == now.unit):
            return float(old), float(new)
    return None


def _sentence(
    before: ReportFigures,
    now: ReportFigures,
    rates: tuple[float, float] | None,
    sizes: tuple[float, float] | None,
) -> str:
    parts = []
    if rates is not None:
        is_at_quota = before.hit_rate is not None and now.hit_rate is not None
        where = "at the quota" if is_at_quota else "at the knee"
        parts.append(f"the hit rate {where} {_moved(f'{rates[0]:.1%}', f'{rates[1]:.1%}')}")
    if before.quota_bytes != now.quota_bytes:
        parts.append(f"the quota {_moved(sized(before.quota_bytes), sized(now.quota_bytes))}")
    if sizes is not None:
        is_money = before.best_capacity_bytes is not None and now.best_capacity_bytes is not None
        is_bytes = is_money or now.unit == "bytes"
        old, new = (sized(round(size)) if is_bytes else f"{size:,.0f} blocks" for size in sizes)
        parts.append(f"the {'best capacity' if is_money else 'knee'} {_moved(old, new)}")
    if not parts:
        return "Nothing can be compared with the report before."
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _moved(old: str, new: str) -> str:
    return f"stayed at {new}" if old == new else f"went from {old} to {new}"
