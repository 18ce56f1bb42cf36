"""Where the agents of a memory pool are: from its spec, within a time limit."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any, Self

from kvcm_platform.core.pool_addresses import MAX_AGENTS, split_address, split_domain

DEFAULT_TIMEOUT_MS = 1000
_LONGEST_ANSWER = 1 << 20


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
    def of(cls, spec: Mapping[str, Any], *, seconds: float | None = None) -> Self:
        """`seconds` instead of the spec's timeout."""
        milliseconds = int(spec.get("timeout") or DEFAULT_TIMEOUT_MS)
        url = str(spec.get("service_discovery_url") or "")
        return cls(str(spec.get("domain") or ""), url, seconds or milliseconds / 1000)


def agent_addresses(spec: PoolSpec) -> list[str]:
    """host:port of every agent, each once. Takes at most `spec.seconds`. Raises DiscoveryError."""
    if spec.service_discovery_url:
        url = spec.service_discovery_url
        return _within(spec.seconds, lambda: _asked(url, spec.seconds))
    try:
        named = split_domain(spec.domain)
    except ValueError as error:
        raise DiscoveryError(f"domain: {error}") from error
    return _within(spec.seconds, lambda: _resolved(named[0])) if len(named) == 1 else named


def _resolved(address: str) -> list[str]:
    """Every address behind one name, of one family, so that no agent is met twice."""
    host, port = split_address(address)
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
    found = four or [f"[{where[0]}]:{port}" for family, *_, where in answers if family == socket.AF_INET6]
    if not found:
        raise DiscoveryError(f"{host} has no address")
    return list(dict.fromkeys(found))[:MAX_AGENTS]


def _asked(url: str, seconds: float) -> list[str]:
    """What a discovery service answers: a JSON list of host:port."""
    if not url.startswith(("http://", "https://")):
        raise DiscoveryError(f"{url} is not an http or https URL")
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310 - checked above
            text = answer.read(_LONGEST_ANSWER + 1)
        found = json.loads(text)
        if not isinstance(found, list) or not 0 < len(found) <= MAX_AGENTS:
            raise ValueError(f"a JSON list of 1 to {MAX_AGENTS} addresses is expected")
        for address in found:
            split_address(str(address))
    except (OSError, ValueError, HTTPException) as error:
        raise DiscoveryError(f"service_discovery_url: {error}") from error
    return list(dict.fromkeys(found))


def _within(seconds: float, work: Callable[[], list[str]]) -> list[str]:
    """Neither a resolver nor a server that answers byte by byte keeps the caller longer."""
    outcome: list[list[str] | OSError] = []

    def run() -> None:
        try:
            outcome.append(work())
        except OSError as error:
            outcome.append(error)
        except ValueError as error:
            # A name that cannot even be written the way resolvers want it.
            outcome.append(DiscoveryError(str(error)))

    thread = threading.Thread(target=run, name="pool discovery", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise DiscoveryError(f"the addresses of the agents did not come within {seconds:g} s")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]
