"""Definitions in words: figures of the same replay differ by tens of points with how they are counted."""

from __future__ import annotations

from ..curve import Curve, Definition, Events, Touch, Unit

_TOUCHES = {
    Touch.DEEP: "a request uses its deepest block first",
    Touch.ROOT: "a request uses its first block first",
}


def definition_text(definition: Definition) -> str:
    """One sentence: policy, order of touches, events, partial blocks, unit, exact or sampled."""
    parts = [definition.policy, *_order(definition), _events(definition)]
    parts.append(
        "the partial last block of a prompt counts as a block"
        if definition.has_partial_blocks
        else "full blocks only"
    )
    parts.append(_unit(definition))
    if definition.sampling:
        parts.append(f"sampled: {definition.sampling}")
    else:
        parts.append("exact" if definition.is_exact else "an estimate")
    if definition.parameters:
        given = ", ".join(f"{name} {value}" for name, value in sorted(definition.parameters.items()))
        parts.append(f"with {given}")
    return "; ".join(parts)


def totals_text(curve: Curve) -> str:
    """What was asked for, how much of it a cache without limit hits, and how much no cache can."""
    compulsory = curve.blocks - curve.unlimited_hit_blocks
    unlimited = curve.unlimited_hit_blocks / max(1, curve.blocks)
    return (
        f"{curve.requests:,} requests asked for {curve.blocks:,} blocks "
        f"({curve.distinct_blocks:,} distinct); a cache without limit hits {unlimited:.2%}, "
        f"and {compulsory:,} blocks are new to any cache"
    )


def _order(definition: Definition) -> list[str]:
    return [_TOUCHES[Touch(definition.touch)]] if definition.touch else []


def _events(definition: Definition) -> str:
    if definition.events != Events.READ_WRITE:
        return "a request reads and brings its blocks at once"
    if not definition.delay_us:
        return "reads and writes as the trace has them"
    return f"blocks come {definition.delay_us / 1e6:g} s after they were asked for"


def _unit(definition: Definition) -> str:
    if definition.policy == "ttl":
        return "by time to live in microseconds, which every use begins anew"
    return "capacity in bytes" if definition.unit == Unit.BYTES else "capacity in blocks"
