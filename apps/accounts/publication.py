"""Tells the data plane which API tokens it may accept (`kvcm:tokens`); it never reads the database."""

from __future__ import annotations

import json

import redis
import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import actor_of
from apps.common.actor import Actor, Role
from apps.common.redis_client import index_client
from kvcm_platform.core.errors import DomainError
from kvcm_platform.index import keyspace

log = structlog.get_logger(__name__)


def tokens_publish_on_commit(*, user: User) -> None:
    """After a change of an account or of its tokens. Control publishes again where Redis is down."""
    digests = list(user.tokens.values_list("digest", flat=True))

    def publish() -> None:
        try:
            _apply(index_client(), _wanted(digests), dict.fromkeys(digests, ""))
        except redis.RedisError as error:
            log.warning("API tokens not published yet", error=str(error))

    transaction.on_commit(publish)


def tokens_reconcile(*, client: redis.Redis) -> int:
    """Make Redis equal to the database; returns how many tokens differed. Raises redis.RedisError."""
    published = {digest.decode(): value.decode() for digest, value in client.hgetall(keyspace.TOKENS).items()}
    return _apply(client, _wanted(None), published)


def _wanted(digests: list[str] | None) -> dict[str, str]:
    """Live tokens with the right to the data plane: digest -> JSON."""
    now = timezone.now()
    tokens = ApiToken.objects.select_related("user").filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True, user__is_active=True
    )
    if digests is not None:
        tokens = tokens.filter(digest__in=digests)
    wanted = {}
    for token in tokens:
        actor = _actor(token)
        if actor is not None and actor.role.covers(Role.ENGINE):
            claim = {
                "role": actor.role.value,
                "groups": None if actor.groups is None else sorted(actor.groups),
                "expires_at": token.expires_at and token.expires_at.timestamp(),
            }
            wanted[token.digest] = json.dumps(claim, sort_keys=True)
    return wanted


def _actor(token: ApiToken) -> Actor | None:
    """Whom a token speaks for; None where its account's rights leave nothing of it."""
    try:
        return actor_of(user=token.user, token=token)
    except DomainError:
        return None


def _apply(client: redis.Redis, wanted: dict[str, str], published: dict[str, str]) -> int:
    changed = {digest: claim for digest, claim in wanted.items() if published.get(digest) != claim}
    surplus = [digest for digest in published if digest not in wanted]
    if changed:
        client.hset(keyspace.TOKENS, mapping=changed)
    if surplus:
        client.hdel(keyspace.TOKENS, *surplus)
    return len(changed) + len(surplus)
