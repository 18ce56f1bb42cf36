"""Addresses of a pool's agents as operators write them and as discovery answers."""

from __future__ import annotations

import re

MAX_AGENTS = 4096
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/?#@\s,]+):(\d{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port". Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise ValueError(f"{address!r} is not host:port")
    return match[1], int(match[2])


def split_domain(domain: str) -> list[str]:
    """The addresses of a comma-separated list, each once. Raises ValueError."""
    addresses = list(dict.fromkeys(part.strip() for part in domain.split(",") if part.strip()))
    for address in addresses:
        split_address(address)
    if not 0 < len(addresses) <= MAX_AGENTS:
        raise ValueError(f"between 1 and {MAX_AGENTS} addresses are expected")
    return addresses
