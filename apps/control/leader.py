"""The lease of the background duties: one control process of the cluster holds it.

Leadership decides about duties alone. Every node answers calls, except one that LeaderDemote asked
to stand down.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable

import redis

from kvcm_platform.index import keyspace

CAMPAIGN_SECONDS = 1.0

_IF_MINE = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
_RENEW = _IF_MINE + "return redis.call('PEXPIRE', KEYS[1], ARGV[2])"
_RELEASE = _IF_MINE + "return redis.call('DEL', KEYS[1])"


class Leader:
    """Takes, renews and gives back the lease. Calls block; `step` is called at least every second.

    `fence` is the number of the current leadership. The holder counts its lease from before it
    asked, so it stops believing in it no later than Redis forgets it.
    """

    def __init__(
        self,
        client: Callable[[], redis.Redis],
        node_id: str,
        lease_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._node_id = node_id
        self._lease_ms = lease_ms
        self._clock = clock
        self._holder = f"{node_id}|{os.getpid()}-{secrets.token_hex(4)}"
        self._held_until = 0.0
        self._stands_down_until = 0.0
        # Between the look whether to campaign and the answer nobody may give the lease back.
        self._lock = threading.Lock()
        self.fence = 0
        self.last_step_at = 0.0
        """Unix seconds."""

    @property
    def is_leader(self) -> bool:
        return self._clock() < self._held_until

    @property
    def is_standing_down(self) -> bool:
        return self._clock() < self._stands_down_until

    @property
    def expires_at(self) -> float:
        """Unix seconds at which the lease ends unless renewed; 0 without one."""
        left = self._held_until - self._clock()
        return time.time() + left if left > 0 else 0.0

    @property
    def step_seconds(self) -> float:
        return min(CAMPAIGN_SECONDS, self._lease_ms / 3000)

    def step(self) -> bool:
        """Renew the lease, or try to take it. Returns whether it is held. Raises redis.RedisError."""
        self.last_step_at = time.time()
        with self._lock:
            return False if self.is_standing_down else self._campaign()

    def _campaign(self) -> bool:
        asked_at = self._clock()
        client = self._client()
        if self._held_until:
            is_held = bool(client.eval(_RENEW, 1, keyspace.LEADER, self._holder, self._lease_ms))
        else:
            is_held = False
        if not is_held:
            is_held = bool(client.set(keyspace.LEADER, self._holder, nx=True, px=self._lease_ms))
            if is_held:
                self.fence = int(client.incr(keyspace.LEADER_FENCE))
        self._held_until = asked_at + self._lease_ms / 1000 if is_held else 0.0
        return is_held

    def release(self) -> None:
        """Give the lease back, so that another node takes over within a second."""
        with self._lock:
            self._held_until = 0.0
            self._client().eval(_RELEASE, 1, keyspace.LEADER, self._holder)

    def stand_down(self, delay_ms: int) -> None:
        """Give up the lease and leave it to others for `delay_ms`."""
        self._stands_down_until = self._clock() + delay_ms / 1000
        if delay_ms > 0:
            self._client().set(keyspace.demoted(self._node_id), "1", px=delay_ms)
        self.release()

    def leader_node_id(self) -> str:
        """The node that holds the lease; empty when none does. Raises redis.RedisError."""
        holder = self._client().get(keyspace.LEADER)
        return holder.decode().rpartition("|")[0] if holder else ""
