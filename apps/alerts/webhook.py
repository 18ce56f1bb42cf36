"""One POST to a webhook, bounded in time and in where it may go.

Receivers are addresses that people type in, and the platform sits inside the network: without a
guard a webhook would be a way to make it call what only it can reach. So the name is resolved
first, every address it gives must be public or in KVCM_WEBHOOK_NETWORKS, the connection goes to the
very address that was checked, and redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_TOLD_BYTES = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""What a receiver answers is noted as it is told; a database need not take all of it."""
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is the receiver's HTTP status, None where it gave none."""

    is_sent: bool
    status: int | None
    error: str
    latency_ms: float


def networks(text: str) -> tuple[Network, ...]:
    """Comma-separated CIDRs. Raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def post(
    url: str,
    body: Mapping[str, Any],
    *,
    headers: Mapping[str, str],
    timeout: float,
    allowed: Sequence[Network] = (),
) -> Outcome:
    """POST `body` as JSON; 2xx counts as sent. Never raises, and takes `timeout` seconds at most."""
    began = time.monotonic()
    status, error = None, ""
    try:
        status, error = _posted(url, body, headers, began + timeout, allowed)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        error = str(problem) or type(problem).__name__
    is_sent = status is not None and 200 <= status < 300
    told = "" if is_sent else _CONTROL.sub(" ", error)[:_TOLD_BYTES]
    return Outcome(is_sent, status, told, (time.monotonic() - began) * 1000)


def _posted(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str], deadline: float, allowed: Sequence[Network]
) -> tuple[int, str]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    held = [_connect(host, port, deadline, allowed)]
    # Every single wait is bounded by the socket; their sum by this: a receiver may send a byte at a time.
    watch = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, [held])
    watch.daemon = True
    watch.start()
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            held[0] = context.wrap_socket(held[0], server_hostname=host, do_handshake_on_connect=False)
            held[0].do_handshake()
        connection = http.client.HTTPConnection(host, port)
        connection.sock = held[0]
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = {"Content-Type": "application/json", "User-Agent": "kvcm-platform", "Host": parts.netloc}
        connection.request("POST", target, json.dumps(body).encode(), {**named, **headers})
        answer = connection.getresponse()
        said = b"" if 200 <= answer.status < 300 else answer.read(_TOLD_BYTES)
        return answer.status, f"{answer.status} {answer.reason}: {said.decode(errors='replace')}".rstrip(": ")
    except (OSError, AttributeError, http.client.HTTPException) as error:
        # Cut off in the middle, TLS loses its state and whatever is done next fails in its own way.
        if time.monotonic() >= deadline:
            raise TimeoutError("no whole answer in time") from error
        raise
    finally:
        watch.cancel()
        held[0].close()


def _connect(host: str, port: int, deadline: float, allowed: Sequence[Network]) -> socket.socket:
    """Raises OSError, and PermissionError where an address of the host may not be called."""
    addresses = list(dict.fromkeys(str(found[4][0]) for found in _resolved(host, port, deadline)))
    for address in addresses:
        if not may_call(address, allowed):
            raise PermissionError(
                f"{host} is at {address}, which is no public address; KVCM_WEBHOOK_NETWORKS names exceptions"
            )
    problem: OSError = OSError(f"{host} has no address")
    for address in addresses:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no connection in time")
        try:
            connected = socket.create_connection((address, port), timeout=left)
        except OSError as error:
            problem = error
        else:
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            return connected
    raise problem


def _resolved(host: str, port: int, deadline: float) -> list[Any]:
    """getaddrinfo knows no timeout: a thread asks, and is left alone when it takes too long."""
    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answer.append(error if isinstance(error, OSError) else OSError(f"{host} is no name of a host"))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if thread.is_alive():
        raise TimeoutError(f"the name {host} was not resolved in time")
    if answer and isinstance(answer[0], OSError):
        raise answer[0]
    return answer


def may_call(address: str, allowed: Sequence[Network]) -> bool:
    """Whether a webhook may go to this address: public, or in one of the allowed networks."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    is_public = ip.is_global and not ip.is_multicast
    if isinstance(ip, ipaddress.IPv6Address):
        # Outside are NAT64 and the like: an IPv4 address is inside of theirs, and whose is not looked at.
        is_public = is_public and ip in _PUBLIC_V6 and ip.sixtofour is None and ip.teredo is None
    return is_public or any(ip.version == each.version and ip in each for each in allowed)


def _cut(held: Sequence[socket.socket]) -> None:
    try:
        held[0].shutdown(socket.SHUT_RDWR)
    except OSError:
        return
