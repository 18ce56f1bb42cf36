"""What both clients share about the connection: where to, how patient, how often again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from .calls import Call
from .errors import TransportError

Metadata = tuple[tuple[str, str], ...]

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A restarted server is found again within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A connection of its own for each client: servers that share a port then share the clients.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Repetition of safe calls that met an unavailable server, with full jitter."""

    attempts: int = 3
    first_delay_seconds: float = 0.05
    max_delay_seconds: float = 1.0

    def delay_seconds(self, failures: int) -> float:
        """A random pause before the next try, after so many failures (1 or more)."""
        ceiling = min(self.max_delay_seconds, self.first_delay_seconds * 2 ** (failures - 1))
        return random.uniform(0, ceiling)  # noqa: S311 - spreads load, guards nothing


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files for a server that speaks TLS. `certificate` and `key` are ours, for one that asks (mTLS)."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        """Raises OSError where a file cannot be read."""
        key = self.key.read_bytes() if self.key else None
        chain = self.certificate.read_bytes() if self.certificate else None
        return grpc.ssl_channel_credentials(self.authority.read_bytes(), key, chain)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the server is and how to speak to it.

    `timeout_seconds` bounds a call with all its retries. With `wait_for_ready` a call made while
    nobody listens waits for the server, within its time, instead of failing. `credentials` None =
    no TLS; only for loopback and trusted networks, since the token then travels in clear.
    """

    endpoint: str
    token: str = field(default="", repr=False)
    timeout_seconds: float = 2.0
    retry: RetryPolicy = RetryPolicy()
    wait_for_ready: bool = False
    credentials: grpc.ChannelCredentials | None = None
    server_name: str = ""
    """A name in the server's certificate, where the endpoint has another one."""

    @property
    def options(self) -> tuple[tuple[str, int | str], ...]:
        """Of the channel."""
        name = (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()
        return (*CHANNEL_OPTIONS, *name)

    @property
    def metadata(self) -> Metadata:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


class Attempts:
    """The time and the tries of one call. Not reusable."""

    def __init__(self, call: Call[Any], connection: Connection, timeout_seconds: float | None) -> None:
        budget = connection.timeout_seconds if timeout_seconds is None else timeout_seconds
        self._deadline = time.monotonic() + budget
        self._policy = connection.retry
        self._tries_left = connection.retry.attempts if call.is_safe else 1
        self._failures = 0
        self._metadata = connection.metadata
        self._wait_for_ready = connection.wait_for_ready

    def options(self) -> dict[str, Any]:
        """What to give the next try: its deadline is what is left of the call's."""
        return {
            "timeout": max(0.001, self._deadline - time.monotonic()),
            "metadata": self._metadata,
            "wait_for_ready": self._wait_for_ready,
        }

    def delay_after(self, error: grpc.RpcError) -> float:
        """Seconds to wait before the next try. Raises TransportError if there is to be none."""
        status = error.code()
        self._failures += 1
        delay = self._policy.delay_seconds(self._failures)
        is_last = self._failures >= self._tries_left or time.monotonic() + delay >= self._deadline
        if status is not grpc.StatusCode.UNAVAILABLE or is_last:
            raise TransportError(status.name, error.details() or "") from error
        return delay
