"""What an analysis is asked to compute, as the browser, schedules and the command line state it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.analysis.capacities import Wish, capacity_check
from kvcm_platform.optimizer.analysis.known_policies import parameters_check, policy_check
from kvcm_platform.optimizer.curve import Events, Touch, Unit
from kvcm_platform.optimizer.roi.cost import cost_from_json

MOST_POLICIES = 24
MOST_CAPACITIES = 200
MOST_WINDOWS = 500
MOST_NAMES = 1000
MOST_TTLS = 200
MOST_TIERS = 100
MOST_HOT_PREFIXES = 1000
MOST_DELAY_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class AnalysisSpec:
    """`capacities` empty = chosen by the optimizer. Names are those of the trace, empty = all of them.

    `begin_seconds` and `end_seconds` cut the trace, from its first request on. `windows` = so many equal
    parts of the time, each with a curve of its own, 0 = none. `tiers` are pairs of capacities. `quota_bytes`
    is a capacity that is of interest whatever else was asked for, 0 = none. `parameters` are of policies, by
    their name. `cost` is what optimizer.roi.cost reads, None = money is left out.
    """

    policies: tuple[str, ...] = ("lru",)
    capacities: tuple[Wish, ...] = ()
    unit: str = Unit.BLOCKS.value
    touch: str = Touch.DEEP.value
    events: str = Events.TURN.value
    delay_seconds: float = 0.0
    instances: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    begin_seconds: float | None = None
    end_seconds: float | None = None
    windows: int = 48
    ttl_seconds: tuple[float, ...] = ()
    tiers: tuple[tuple[Wish, Wish], ...] = ()
    has_bound: bool = True
    hot_prefixes: int = 50
    is_sampled: bool = False
    seed: int = 0
    quota_bytes: int = 0
    parameters: Mapping[str, Mapping[str, Any]] | None = None
    cost: Mapping[str, Any] | None = None


def spec_from_json(data: Mapping[str, Any]) -> AnalysisSpec:
    """Raises INVALID_ARGUMENT naming the member that is unknown, of a wrong type, or out of its range."""
    if not isinstance(data, Mapping):
        raise invalid("spec", "must be an object")
    known = {member.name for member in fields(AnalysisSpec)}
    for name in data:
        if name not in known:
            raise invalid(str(name), "is not a member")
    values = {name: _READERS[name](name, value) for name, value in data.items()}
    spec = AnalysisSpec(**values)
    _check_together(spec)
    return spec


def spec_to_json(spec: AnalysisSpec) -> dict[str, Any]:
    """JSON-ready; `spec_from_json` is its inverse."""
    shown: dict[str, Any] = {}
    for member in fields(AnalysisSpec):
        value = getattr(spec, member.name)
        shown[member.name] = _listed(value) if isinstance(value, tuple) else value
    return shown


def _listed(value: tuple[Any, ...]) -> list[Any]:
    return [_listed(item) if isinstance(item, tuple) else item for item in value]


def _check_together(spec: AnalysisSpec) -> None:
    begin, end = spec.begin_seconds, spec.end_seconds
    if begin is not None and end is not None and end <= begin:
        raise invalid("end_seconds", "must lie after begin_seconds")
    if spec.ttl_seconds and "ttl" not in spec.policies:
        raise invalid("ttl_seconds", "needs the policy ttl")
    if spec.is_sampled and spec.touch != Touch.DEEP:
        raise invalid("is_sampled", "holds for touches deepest first alone (OPTIMIZER.md 5)")
    if spec.tiers and spec.is_sampled:
        raise invalid("tiers", "need the exact curve")
    if spec.tiers and ("lru" not in spec.policies or spec.touch != Touch.DEEP):
        raise invalid("tiers", "follow from the policy lru, touched deepest first, alone")
    for policy, given in (spec.parameters or {}).items():
        if policy not in spec.policies:
            raise invalid("parameters", f"policy {policy} is not among the policies")
        parameters_check(policy, given)
    if spec.cost is not None:
        cost_from_json(spec.cost)


def _sequence(name: str, value: Any, at_most: int) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise invalid(name, "must be a list")
    if len(value) > at_most:
        raise invalid(name, f"{len(value)} are more than {at_most}")
    return value


def _names(name: str, value: Any) -> tuple[str, ...]:
    found = _sequence(name, value, MOST_NAMES)
    if not all(isinstance(item, str) for item in found):
        raise invalid(name, "must be a list of names")
    return tuple(dict.fromkeys(found))


def _policies(name: str, value: Any) -> tuple[str, ...]:
    found = _names(name, _sequence(name, value, MOST_POLICIES))
    if not found:
        raise invalid(name, "at least one is needed")
    for policy in found:
        policy_check(policy, name)
    return found


def _capacities(name: str, value: Any) -> tuple[Wish, ...]:
    if value == "auto":
        return ()
    found = _sequence(name, value, MOST_CAPACITIES)
    for wish in found:
        capacity_check(wish, name)
    return tuple(dict.fromkeys(found))


def _pairs(name: str, value: Any) -> tuple[tuple[Wish, Wish], ...]:
    pairs = []
    for pair in _sequence(name, value, MOST_TIERS):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise invalid(name, "must be a list of pairs of capacities")
        for wish in pair:
            capacity_check(wish, name)
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _seconds(name: str, value: Any, least: float = 0.0, most: float = 1e9) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise invalid(name, "must be a number of seconds")
    if not least <= value <= most:
        raise invalid(name, f"must be within {least:g}..{most:g}")
    return float(value)


def _maybe_seconds(name: str, value: Any) -> float | None:
    return None if value is None else _seconds(name, value)


def _delay(name: str, value: Any) -> float:
    return _seconds(name, value, most=MOST_DELAY_SECONDS)


def _ttls(name: str, value: Any) -> tuple[float, ...]:
    found = {_seconds(name, item, least=1e-6) for item in _sequence(name, value, MOST_TTLS)}
    return tuple(sorted(found))


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise invalid(name, "must be true or false")
    return value


def _count(most: int) -> Any:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(name, "must be a whole number")
        if not 0 <= value <= most:
            raise invalid(name, f"must be within 0..{most}")
        return value

    return read


def _one_of(kinds: type[Unit] | type[Touch] | type[Events]) -> Any:
    def read(name: str, value: Any) -> str:
        allowed = [kind.value for kind in kinds]
        if value not in allowed:
            raise invalid(name, f"must be one of {', '.join(allowed)}")
        return str(value)

    return read


def _parameters(name: str, value: Any) -> Mapping[str, Mapping[str, Any]] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(item, Mapping) for item in value.values()):
        raise invalid(name, "must be an object of objects, by policy")
    if len(value) > MOST_POLICIES or any(len(item) > 20 for item in value.values()):
        raise invalid(name, "has too many members")
    return {str(policy): dict(members) for policy, members in value.items()}


def _cost(name: str, value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, Mapping):
        raise invalid(name, "must be an object")
    return None if value is None else dict(value)


_READERS: dict[str, Any] = {
    "policies": _policies,
    "capacities": _capacities,
    "unit": _one_of(Unit),
    "touch": _one_of(Touch),
    "events": _one_of(Events),
    "delay_seconds": _delay,
    "instances": _names,
    "types": _names,
    "begin_seconds": _maybe_seconds,
    "end_seconds": _maybe_seconds,
    "windows": _count(MOST_WINDOWS),
    "ttl_seconds": _ttls,
    "tiers": _pairs,
    "has_bound": _flag,
    "hot_prefixes": _count(MOST_HOT_PREFIXES),
    "is_sampled": _flag,
    "seed": _count((1 << 31) - 1),
    "quota_bytes": _count(1 << 62),
    "parameters": _parameters,
    "cost": _cost,
}
