"""Who may call the data-plane ports: `open`, `network`, `token` or `mtls` (KVCM_META_AUTH).

With `mtls` the TLS handshake has decided: no call comes without a certificate that is accepted.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import time
from dataclasses import dataclass

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import READ_SECONDS, Commands

REMEMBER_SECONDS = 1.0
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """What a transport knows of its peer. `authorization` and `internal` are headers as sent."""

    address: str
    authorization: str = ""
    internal: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a caller may do: `groups` limits it to instances of these groups; None = all."""

    groups: frozenset[str] | None = None

    def require(self, group: str) -> None:
        """Raises PERMISSION_DENIED for a group outside the claim."""
        if self.groups is not None and group not in self.groups:
            raise DomainError(Code.PERMISSION_DENIED, f"the token is not valid for group {group}")


ANYBODY = Caller("")
EVERYTHING = Claim()


class MetaAccess:
    """Tokens are looked up by digest in Redis, where accounts publish them, and remembered for a second."""

    def __init__(self, mode: str, networks: str, internal_token: str, commands: Commands) -> None:
        self._mode = mode
        self._networks = [ipaddress.ip_network(text.strip()) for text in networks.split(",") if text.strip()]
        self._internal_token = internal_token
        self._commands = commands
        self._known: dict[str, tuple[float, Claim | None]] = {}

    @property
    def takes_anybody(self) -> bool:
        """Whether nothing has to be known of a caller."""
        return self._mode in ("open", "mtls")

    def is_free(self, caller: Caller) -> bool:
        """Whether the caller may do everything, as far as that is known without a look into Redis."""
        if self.takes_anybody:
            return True
        if self._mode == "network":
            return self._is_inside(caller.address)
        known = self._known.get(_digest(_token(caller)))
        return (
            known is not None and known[1] == EVERYTHING and time.monotonic() - known[0] <= REMEMBER_SECONDS
        )

    async def check(self, caller: Caller) -> Claim:
        """Raises UNAUTHENTICATED or PERMISSION_DENIED, and IndexUnavailable while tokens cannot be read.

        Control, which applied its own rules, comes with the internal token.
        """
        if self.takes_anybody:
            return EVERYTHING
        if caller.internal and hmac.compare_digest(caller.internal, self._internal_token):
            return EVERYTHING
        if self._mode == "network":
            if not self._is_inside(caller.address):
                raise DomainError(Code.PERMISSION_DENIED, f"{caller.address} is not in KVCM_META_NETWORKS")
            return EVERYTHING
        token = _token(caller)
        claim = await self._claim(token) if token else None
        if claim is None:
            raise DomainError(Code.UNAUTHENTICATED, "a valid bearer token is required")
        return claim

    def _is_inside(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._networks)

    async def _claim(self, token: str) -> Claim | None:
        digest = _digest(token)
        now = time.monotonic()
        known = self._known.get(digest)
        if known is None or now - known[0] > REMEMBER_SECONDS:
            raw = await self._commands.call("HGET", keyspace.TOKENS, digest, timeout=READ_SECONDS)
            if len(self._known) > MAX_REMEMBERED:
                self._known.clear()
            known = self._known[digest] = (now, _parse(raw))
        return known[1]


def _token(caller: Caller) -> str:
    """The bearer token; empty where there is none."""
    scheme, _, token = caller.authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _parse(raw: bytes | None) -> Claim | None:
    """The claim of a published token; None where there is none or it has expired."""
    if raw is None:
        return None
    token = json.loads(raw)
    expires_at = token.get("expires_at")
    if expires_at is not None and expires_at <= time.time():
        return None
    groups = token.get("groups")
    return Claim(None if groups is None else frozenset(groups))
