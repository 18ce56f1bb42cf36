"""Where the agents of a memory pool are: from its spec, within a time limit."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Self

DEFAULT_TIMEOUT_MS = 1000
MAX_AGENTS = 4096
_LONGEST_ANSWER = 1 << 20
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/\s,]+):(\d{1,5})")


class DiscoveryError(OSError):
    """The agents' addresses cannot be had."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What the spec of a tair_mempool storage says about reaching it.

    `domain` is host:port, comma-separated, or one name:port that resolves to all agents;
    `service_discovery_url` goes before it where both are given. `seconds` bounds one call.
    """

    domain: str
    service_discovery_url: str = ""
    seconds: float = DEFAULT_TIMEOUT_MS / 1000

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Self:
        milliseconds = int(spec.get("timeout") or DEFAULT_TIMEOUT_MS)
        url = str(spec.get("service_discovery_url") or "")
        return cls(str(spec.get("domain") or ""), url, milliseconds / 1000)


def agent_addresses(spec: PoolSpec) -> list[str]:
    """host:port of every agent, each once. Takes at most `spec.seconds`. Raises DiscoveryError."""
    if spec.service_discovery_url:
        found = _within(spec.seconds, lambda: _asked(spec.service_discovery_url, spec.seconds))
    else:
        named = [part.strip() for part in spec.domain.split(",") if part.strip()]
        found = _within(spec.seconds, lambda: _resolved(named[0])) if len(named) == 1 else named
    if not found:
        raise DiscoveryError("no agent is named")
    for address in found:
        _split(address)
    return list(dict.fromkeys(found))[:MAX_AGENTS]


def _split(address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise DiscoveryError(f"{address!r} is not host:port")
    return match[1], int(match[2])


def _resolved(address: str) -> list[str]:
    """Every address behind one name, of one family, so that no agent is met twice."""
    host, port = _split(address)
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        pass
    else:
        return [address]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DiscoveryError(f"{host} cannot be resolved: {error.strerror or error}") from error
    four = [f"{where[0]}:{port}" for family, *_, where in answers if family == socket.AF_INET]
    return four or [f"[{where[0]}]:{port}" for family, *_, where in answers if family == socket.AF_INET6]


def _asked(url: str, seconds: float) -> list[str]:
    """What a discovery service answers: a JSON list of host:port."""
    if not url.startswith(("http://", "https://")):
        raise DiscoveryError(f"{url} is not an http or https URL")
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - checked above
            text = answer.read(_LONGEST_ANSWER + 1)
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise DiscoveryError(f"{url}: {error}") from error
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise DiscoveryError(f"{url}: a JSON list of host:port is expected")
    return found


def _within(seconds: float, work: Callable[[], list[str]]) -> list[str]:
    """Neither a resolver nor a server that answers byte by byte keeps the caller longer."""
    outcome: list[list[str] | OSError] = []

    def run() -> None:
        try:
            outcome.append(work())
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="pool discovery", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise DiscoveryError(f"the addresses of the agents did not come within {seconds:g} s")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]
