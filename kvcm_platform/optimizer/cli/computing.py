"""Curves for the commands: which function computes what, and what capacities people wrote."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

import numpy as np

from kvcm_platform.core.errors import invalid

from ..analysis.capacities import capacities_resolve, capacity_resolve, sizes_of
from ..analysis.known_policies import policy_check
from ..compat import PARAMETERS, PREFIX
from ..curve import Curve, Events, Touch, Unit
from ..curves import belady_curve, lru_curve
from ..policies import POLICIES, simulate
from ..report import Quota
from ..trace import Trace, has_only_turns
from .console import bar

_POINTS = 20
_BOUND_POINTS = 48


def policies_of(options: argparse.Namespace) -> list[str]:
    """Each once, in the order given. Raises DomainError for one that there is not."""
    names = list(dict.fromkeys(name.strip() for name in options.policies.split(",") if name.strip()))
    if not names:
        raise invalid("policy", "name one at least")
    for name in names:
        policy_check(name, "policy")
        if name == "ttl":
            raise invalid("policy", "ttl has times instead of capacities: `curve --policy ttl` draws it")
    return names


def parameters_of(options: argparse.Namespace, policy: str) -> dict[str, float]:
    """Those of --parameter that the policy has. Raises DomainError for one that none of the policies has."""
    found = {}
    for text in options.parameter or ():
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError as error:
            raise invalid("parameter", f"NAME=VALUE with a number, not {text!r}") from error
        if name in _known_parameters(policy):
            found[name] = number
        elif not any(name in _known_parameters(other) for other in policies_of(options)):
            raise invalid("parameter", f"none of the policies has {name!r}")
    return found


def _known_parameters(policy: str) -> Collection[str]:
    if policy.startswith(PREFIX):
        return PARAMETERS
    return POLICIES[policy].parameters if policy in POLICIES else ()


def capacities_of(options: argparse.Namespace, trace: Trace, points: int = _POINTS) -> list[int]:
    """As given, in the unit of the command; else `points` of them, evenly in the logarithm, up to
    everything."""
    sizes = sizes_of(trace)
    if options.capacities:
        wishes = [wish.strip() for wish in options.capacities.split(",") if wish.strip()]
        if not wishes:
            raise invalid("capacities", "name one at least")
        return list(capacities_resolve(wishes, sizes, options.unit))
    everything = sizes.distinct_bytes if options.unit == Unit.BYTES else sizes.distinct_blocks
    if not sizes.distinct_blocks:
        raise invalid("trace", "it has no block")
    if not everything:
        raise invalid("unit", "the trace does not say how many bytes a block has")
    least = max(1, everything // 1000)
    steps = np.geomspace(least, everything, points).round()
    return [int(step) for step in np.unique(steps)]


def quota_of(options: argparse.Namespace, trace: Trace) -> Quota | None:
    if not options.quota:
        return None
    sizes = sizes_of(trace)
    if options.unit == Unit.BYTES:
        return Quota(size_bytes=capacity_resolve(options.quota, sizes, Unit.BYTES, "quota"))
    return Quota(size_blocks=capacity_resolve(options.quota, sizes, Unit.BLOCKS, "quota"))


def curve_of(
    options: argparse.Namespace, trace: Trace, policy: str, capacities: Sequence[int] | None
) -> Curve:
    """The curve of one policy under the options of `_policy_options`; None: all capacities, of lru alone."""
    events, delay_us = Events(options.events), round(options.delay * 1e6)
    parameters = parameters_of(options, policy)
    with bar(options, policy) as told:
        if policy == "belady":
            if events is not Events.TURN or delay_us:
                raise invalid("events", "the bound is that of requests that read and bring at once")
            return belady_curve(trace, capacities, unit=Unit(options.unit), on_progress=told)
        if policy == "lru" and events is Events.TURN and not delay_us and has_only_turns(trace):
            return lru_curve(
                trace, capacities, touch=Touch(options.touch), unit=Unit(options.unit), on_progress=told
            )
        return simulate(
            trace,
            policy,
            capacities if capacities is not None else capacities_of(options, trace),
            touch=Touch(options.touch),
            events=events,
            delay_us=delay_us,
            unit=Unit(options.unit),
            seed=options.seed,
            on_progress=told,
            parameters=parameters,
        )


def bound_of(options: argparse.Namespace, trace: Trace, capacities: Sequence[int] | None = None) -> Curve:
    """The clairvoyant bound at the capacities, or at enough of them for a line."""
    wanted = capacities if capacities is not None else capacities_of(options, trace, _BOUND_POINTS)
    with bar(options, "clairvoyant bound") as told:
        return belady_curve(trace, wanted, unit=Unit(options.unit), on_progress=told)
