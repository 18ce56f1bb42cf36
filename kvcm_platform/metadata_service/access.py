"""Who may call the data-plane ports: `open`, `network` or `token` (KVCM_META_AUTH)."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import time
from dataclasses import dataclass

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import keyspace
from kvcm_platform.index.connection import Commands

REMEMBER_SECONDS = 1.0
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """What a transport knows of its peer. `authorization` is the header as sent."""

    address: str
    authorization: str = ""


class MetaAccess:
    """Tokens are looked up by digest in Redis, where accounts publish them, and remembered for a second."""

    def __init__(self, mode: str, networks: str, commands: Commands) -> None:
        self._mode = mode
        self._networks = [ipaddress.ip_network(text.strip()) for text in networks.split(",") if text.strip()]
        self._commands = commands
        self._known: dict[str, tuple[float, bool]] = {}

    async def check(self, caller: Caller) -> None:
        """Raises UNAUTHENTICATED or PERMISSION_DENIED."""
        if self._mode == "open":
            return
        if self._mode == "network":
            if not self._is_inside(caller.address):
                raise DomainError(Code.PERMISSION_DENIED, f"{caller.address} is not in KVCM_META_NETWORKS")
            return
        scheme, _, token = caller.authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not await self._is_valid(token.strip()):
            raise DomainError(Code.UNAUTHENTICATED, "a valid bearer token is required")

    def _is_inside(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    async def _is_valid(self, token: str) -> bool:
        digest = hashlib.sha256(token.encode()).hexdigest()
        now = time.monotonic()
        known = self._known.get(digest)
        if known is None or now - known[0] > REMEMBER_SECONDS:
            raw = await self._commands.call("HGET", keyspace.TOKENS, digest)
            expires_at = json.loads(raw).get("expires_at") if raw else 0
            is_valid = raw is not None and (expires_at is None or expires_at > time.time())
            if len(self._known) > MAX_REMEMBERED:
                self._known.clear()
            known = self._known[digest] = (now, is_valid)
        return known[1]
