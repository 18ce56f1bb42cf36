"""What is paid for computing and for keeping: the cost model that every figure in money comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvcm_platform.core.errors import invalid

from .models import PRESETS, ModelCost

GIB = 1 << 30
MONTH_SECONDS = 365.25 / 12 * 86400
"""The mean month: 730.5 hours."""
MOST_TIERS = 8
MOST = 1e30
"""Of any number of a cost model, and 1 / MOST the least: products of several are finite and not 0."""

EXAMPLE_EFFECTIVE_FLOPS = 4e14
"""FLOP/s of one accelerator in prefill: 40 % of the 989e12 dense bfloat16 FLOP/s in NVIDIA's data sheet of
the H100 SXM. An example: enter the measured rate of your own engines."""
EXAMPLE_GPU_HOUR_PRICE = 2.5


@dataclass(frozen=True, slots=True)
class StorageTier:
    """One level of storage that the cache lies on.

    `bandwidth_bytes_per_second` is what all engines together can read from it, 0 where it is not known (then
    it is not checked). `capacity_bytes` 0 = takes all that the tiers before it do not.
    """

    name: str
    price_per_gib_month: float
    bandwidth_bytes_per_second: float = 0.0
    latency_seconds: float = 0.0
    capacity_bytes: int = 0


EXAMPLE_TIERS = (
    StorageTier("memory", 2.0, bandwidth_bytes_per_second=50e9, latency_seconds=50e-6),
    StorageTier("file storage", 0.1, bandwidth_bytes_per_second=5e9, latency_seconds=1e-3),
)
"""Examples of the order of magnitude of rented DRAM and of shared flash; prices are to be entered."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """How fast and at what price prompts are computed, and what storage costs.

    Computing is as fast as `effective_flops` of one accelerator say; where `prefill_tokens_per_second`
    (measured on one accelerator) is given instead, that rate is taken. It was reached with prompts of
    `measured_prompt_tokens`; 0 there = every token takes as long, wherever it stands. `gpus_per_engine`
    accelerators compute one prompt together: it decides how long a prompt waits, not what it costs.
    `peak_ratio` is the load of the busiest time to the mean one, for the check of bandwidth.
    """

    model: ModelCost
    gpu_hour_price: float = EXAMPLE_GPU_HOUR_PRICE
    effective_flops: float = EXAMPLE_EFFECTIVE_FLOPS
    prefill_tokens_per_second: float = 0.0
    measured_prompt_tokens: int = 0
    gpus_per_engine: int = 1
    tiers: tuple[StorageTier, ...] = (EXAMPLE_TIERS[1],)
    peak_ratio: float = 1.0
    currency: str = "USD"

    def __post_init__(self) -> None:
        """Raises DomainError naming the member that cannot be."""
        _check_numbers(self)
        _check_tiers(self.tiers)
        if len(self.currency) > 8:
            raise invalid("currency", "at most 8 characters")

    @property
    def seconds_per_token(self) -> float:
        """Accelerator seconds for a token at position 0."""
        if self.prefill_tokens_per_second and not self.measured_prompt_tokens:
            return 1 / self.prefill_tokens_per_second
        return self.model.flops_per_token / self._flops_per_second

    @property
    def seconds_per_token_position(self) -> float:
        """Accelerator seconds more for every token before it."""
        if self.prefill_tokens_per_second and not self.measured_prompt_tokens:
            return 0.0
        return self.model.flops_per_token_position / self._flops_per_second

    @property
    def _flops_per_second(self) -> float:
        """The measured rate as FLOP/s, where there is one: tokens of a prompt are not equally dear."""
        if not self.prefill_tokens_per_second:
            return self.effective_flops
        tokens = self.measured_prompt_tokens
        return self.model.prefill_flops(tokens) / tokens * self.prefill_tokens_per_second

    def prefill_seconds(self, tokens: float, token_positions: float) -> float:
        """Accelerator seconds to compute tokens, the sum of whose positions in their prompts is given."""
        return self.seconds_per_token * tokens + self.seconds_per_token_position * token_positions


def _check_numbers(cost: CostModel) -> None:
    model = cost.model
    _positive("kv_bytes_per_token", model.kv_bytes_per_token)
    _positive("flops_per_token", model.flops_per_token)
    _not_negative("flops_per_token_position", model.flops_per_token_position)
    _not_negative("gpu_hour_price", cost.gpu_hour_price)
    _not_negative("prefill_tokens_per_second", cost.prefill_tokens_per_second)
    _not_negative("measured_prompt_tokens", cost.measured_prompt_tokens)
    if not cost.prefill_tokens_per_second:
        _positive("effective_flops", cost.effective_flops)
    if not 1 <= cost.gpus_per_engine <= MOST:
        raise invalid("gpus_per_engine", "at least 1")
    if not 1 <= cost.peak_ratio <= MOST:
        raise invalid("peak_ratio", "at least 1: the busiest time has no less than the mean load")


def _check_tiers(tiers: tuple[StorageTier, ...]) -> None:
    if not 1 <= len(tiers) <= MOST_TIERS:
        raise invalid("tiers", f"between 1 and {MOST_TIERS} tiers")
    for tier in tiers:
        if not tier.name:
            raise invalid("tiers", "every tier needs a name")
        _not_negative("price_per_gib_month", tier.price_per_gib_month)
        _not_negative("bandwidth_bytes_per_second", tier.bandwidth_bytes_per_second)
        _not_negative("latency_seconds", tier.latency_seconds)
        _not_negative("capacity_bytes", tier.capacity_bytes)
    for tier in tiers[:-1]:
        if not tier.capacity_bytes:
            raise invalid("capacity_bytes", f"tier {tier.name!r} needs one: others follow it")


def _positive(field: str, value: float) -> None:
    if not 1 / MOST <= value <= MOST:
        raise invalid(field, f"a number over 0, at most {MOST:g}")


def _not_negative(field: str, value: float) -> None:
    if value and not 1 / MOST <= value <= MOST:
        raise invalid(field, f"a number that is not negative, at most {MOST:g}")


def cost_to_json(cost: CostModel) -> dict[str, Any]:
    """JSON-ready; `cost_from_json` is its inverse."""
    return {**asdict(cost), "tiers": [asdict(tier) for tier in cost.tiers]}


def cost_from_json(data: Mapping[str, Any]) -> CostModel:
    """A cost model from members that people entered; what is left out has the value of the examples.

    `model` is the name of a preset, or an object with `preset` and members that replace its own, or one
    with all members. Raises DomainError naming the member that is unknown, of a wrong type or impossible.
    """
    members = _object("cost_model", data, CostModel)
    if "model" not in members:
        raise invalid("model", f"the name of a preset ({', '.join(PRESETS)}) or an object")
    members["model"] = _model_from_json(members["model"])
    if "tiers" in members:
        if not isinstance(members["tiers"], list | tuple):
            raise invalid("tiers", "a list of tiers")
        members["tiers"] = tuple(_tier_from_json(tier) for tier in members["tiers"])
    _check_types(members, CostModel)
    return CostModel(**members)


def _model_from_json(data: object) -> ModelCost:
    if isinstance(data, str):
        return preset(data)
    if not isinstance(data, Mapping):
        raise invalid("model", "the name of a preset or an object")
    members = {name: value for name, value in data.items() if name != "preset"}
    _object("model", members, ModelCost)
    _check_types(members, ModelCost)
    if "preset" in data:
        return replace(preset(data["preset"]), **members)
    for name in ("name", "kv_bytes_per_token", "flops_per_token", "flops_per_token_position"):
        if name not in members:
            raise invalid(name, "missing: a model without `preset` needs it")
    return ModelCost(**members)


def preset(name: object) -> ModelCost:
    """Raises DomainError for a name that is not in PRESETS."""
    found = PRESETS.get(name) if isinstance(name, str) else None
    if found is None:
        raise invalid("model", f"no preset {name!r}; there are {', '.join(PRESETS)}")
    return found


def _tier_from_json(data: object) -> StorageTier:
    members = _object("tiers", data, StorageTier)
    _check_types(members, StorageTier)
    for name in ("name", "price_per_gib_month"):
        if name not in members:
            raise invalid(name, "missing in a tier")
    return StorageTier(**members)


def _object(field: str, data: object, kind: type) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise invalid(field, "an object")
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name in data:
        if name not in known:
            raise invalid(str(name), f"unknown in {field}; there are {', '.join(known)}")
    return dict(data)


def _check_types(members: dict[str, Any], kind: type) -> None:
    """Numbers where numbers belong: strings, booleans and nulls come from JSON as well."""
    for name, value in members.items():
        wanted = kind.__dataclass_fields__[name].type  # type: ignore[attr-defined]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if wanted == "float" and not is_number:
            raise invalid(name, "a number")
        if wanted == "int" and not (is_number and float(value).is_integer()):
            raise invalid(name, "a whole number")
        if wanted == "str" and not isinstance(value, str):
            raise invalid(name, "a string")
        if wanted == "int":
            members[name] = int(value)
