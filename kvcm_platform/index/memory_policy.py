"""Whether the index's servers keep what they are given: their `maxmemory-policy` must be noeviction.

Any other one lets a server drop keys by itself when its memory is short. It is read from INFO, since
CONFIG is forbidden at many providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import redis
import structlog

from .blocking import masters
from .placed_client import PlacedClient

SAFE = "noeviction"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ForeignPolicy:
    """A server that may drop keys. `groups` = numbers of those that lie there; none = the platform's own."""

    policy: str
    groups: tuple[int, ...] = ()

    def sentence(self, names: Mapping[int, str]) -> str:
        """`names` of groups by number."""
        known = ", ".join(sorted(names.get(number, str(number)) for number in self.groups))
        whose = f"The Redis of group {known}" if self.groups else "The index's Redis"
        return (
            f"{whose} has maxmemory-policy {self.policy}: it may drop blocks, limits and sessions by itself."
            f" Set it to {SAFE}."
        )


def foreign_policies(client: redis.Redis | PlacedClient) -> list[ForeignPolicy]:
    """One a server, the platform's first. Raises redis.RedisError where the platform's does not answer."""
    main = client.main if isinstance(client, PlacedClient) else client
    found = [ForeignPolicy(policy) for policy in _policies(main)]
    if isinstance(client, PlacedClient):
        by_url: dict[str, list[int]] = {}
        for number, url in client.places().urls.items():
            by_url.setdefault(url, []).append(number)
        for url, groups in sorted(by_url.items()):
            try:
                own = _policies(client.at(url))
            except redis.RedisError as error:
                log.debug("a group's own Redis does not say its policy", groups=groups, reason=str(error))
                continue
            found += [ForeignPolicy(policy, tuple(sorted(groups))) for policy in own]
    return found


def _policies(client: redis.Redis) -> list[str]:
    """Policies of its masters that are not safe, each once. One that says nothing is taken to be safe."""
    said = {str(master.info("memory").get("maxmemory_policy", SAFE)) for master in masters(client)}
    return sorted(said - {SAFE})
