"""Members of JSON records that several formats share: keys in any form, masks, numbers, block sizes."""

from __future__ import annotations

import math
from array import array
from typing import Any

from kvcm_platform.core import masks

_MASK = (1 << 64) - 1
_SIGN = 1 << 63
MAX_BLOCKS = 1 << 24
"""Of one request."""


def signed(number: int) -> int:
    """The low 64 bits as a signed number: engines print keys with and without a sign, some longer."""
    number &= _MASK
    return number - (1 << 64) if number & _SIGN else number


def block_keys(value: Any, name: str = "keys") -> array[int]:
    """Keys as numbers (signed or unsigned), decimal or 0x strings, or bytes, of which the last 8 count.

    Raises ValueError.
    """
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is not a list")
    if len(value) > MAX_BLOCKS:
        raise ValueError(f"{name} has more than {MAX_BLOCKS:,} entries")
    try:
        return array("q", value)
    except (TypeError, OverflowError):
        return array("q", [block_key(key, name) for key in value])


def block_key(key: Any, name: str = "keys") -> int:
    """One key in any form. Raises ValueError."""
    if isinstance(key, int):
        return signed(key)
    if isinstance(key, bytes) and key:
        return signed(int.from_bytes(key[-8:], "big"))
    if isinstance(key, str):
        try:
            return signed(int(key, 16 if key[:2].lower() == "0x" else 10))
        except ValueError:
            pass
        try:
            return signed(int(key, 16))
        except ValueError:
            pass
    raise ValueError(f"{name} holds {key!r:.40}, which is no block key")


def token_ids(value: Any, name: str = "tokens") -> array[int]:
    """Raises ValueError for what is not a list of whole numbers."""
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    try:
        return array("q", value)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error


def skipped(mask: Any, count: int, name: str = "block_mask") -> int:
    """Blocks at the beginning that the engine had itself, by an offset or flags. Raises ValueError.

    Flags after the first block that it did not have say nothing about a prefix and are not used.
    """
    flags = mask_flags(mask, count, name)
    return flags.index(False) if False in flags else len(flags)


def mask_flags(mask: Any, count: int, name: str = "block_mask") -> list[bool]:
    """One flag a block; an absent mask has nothing in it. Raises ValueError."""
    if mask is None or mask == {}:
        return [False] * count
    if isinstance(mask, dict):
        # The JSON form of the protocol's message.
        mask = mask.get("offset", mask.get("bool_masks"))
        if isinstance(mask, dict):
            mask = mask.get("values", [])
    if isinstance(mask, bool):
        raise ValueError(f"{name} is neither an offset nor a list")
    if isinstance(mask, int) and mask >= 0:
        return masks.flags(mask, count)
    if isinstance(mask, list) and all(isinstance(flag, bool) for flag in mask):
        return masks.flags(mask, count)
    raise ValueError(f"{name} is neither an offset nor a list of true and false")


def left_out_lookup(record: dict[str, Any]) -> str:
    """A note on a lookup that is no prefix match; empty for one that is. Raises ValueError."""
    query_type = text(record, "query_type", "prefix_match").lower().removeprefix("qt_")
    return "" if query_type.startswith("prefix_match") else f"lookup of type {query_type:.40} left out"


def whole(record: dict[str, Any], name: str, default: int | None = None) -> int:
    """A member that is a whole number, not negative. Raises ValueError."""
    value = record.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is not a whole number")
    return value


def text(record: dict[str, Any], name: str, default: str | None = None) -> str:
    """A member that is a string. Raises ValueError."""
    value = record.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a string")
    return value


def seconds_us(value: Any, name: str) -> int:
    """A number of seconds as microseconds. Raises ValueError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} is not a number")
    return round(value * 1e6)


def block_tokens_of(tokens: int, blocks: int) -> int:
    """The likely block size of a prompt of so many tokens in so many full blocks.

    A power of two where one fits (engines use these), else what all tokens filled evenly would give.
    """
    most = tokens // blocks
    least = tokens // (blocks + 1) + 1
    power = 1 << (most.bit_length() - 1) if most else 1
    return power if power >= least else max(1, most)
