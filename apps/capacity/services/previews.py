"""What reclaim would take: of a request, and after a change of a group's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from django.conf import settings as django_settings

from apps.capacity.services.requests import request_check
from apps.common.actor import Actor
from apps.instances.selectors import group_get
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.reclaim.marks import mark_of
from kvcm_platform.core.reclaim.runs import ReclaimRequest
from kvcm_platform.core.registry import GroupEntry
from kvcm_platform.core.sizes import sized
from kvcm_platform.core.validation.groups import GroupSettings, check_group
from kvcm_platform.duties.reclaim_preview import ReclaimPreview, reclaim_preview
from kvcm_platform.duties.session import IndexSession, index_session


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would go, and a sentence that says it."""

    instance_group: str
    sentence: str
    preview: ReclaimPreview


def request_preview(*, acting: Actor, wish: ReclaimRequest) -> Foreseen:
    """What a request would take now. Raises as request_check; NOT_READY, redis.RedisError."""
    wish = request_check(acting=acting, wish=wish)
    return asyncio.run(_foresee(wish.group, lambda group: group, wish))


def quota_preview(*, acting: Actor, group: str, change: Callable[[GroupSettings], GroupSettings]) -> Foreseen:
    """What a group would give back by its marks if its settings were changed so; nothing changes.

    Raises NOT_FOUND, INVALID_ARGUMENT, NOT_READY, redis.RedisError.
    """
    settings = check_group(change(group_get(acting=acting, name=group).settings))

    def hypothetical(published: GroupEntry) -> GroupEntry:
        values = {member.name: getattr(settings, member.name) for member in fields(GroupSettings)}
        return replace(published, **values)

    return asyncio.run(_foresee(group, hypothetical, None))


async def _foresee(
    name: str, changed: Callable[[GroupEntry], GroupEntry], wish: ReclaimRequest | None
) -> Foreseen:
    async with index_session(django_settings.KVCM_REDIS_URL) as session:
        published = session.registry.groups.get(name)
        if published is None:
            raise DomainError(Code.NOT_READY, f"group {name} is not published yet")
        _require_reachable(session, published, wish.instance_id if wish else "")
        group = changed(published)
        found = await reclaim_preview(session, group, wish)
        sentence = _of_request(group, wish, found) if wish else _of_change(published, group, found)
        return Foreseen(name, sentence, found)


def _require_reachable(session: IndexSession, group: GroupEntry, instance_id: str) -> None:
    if group.number in session.cut_off:
        raise DomainError(Code.NOT_READY, f"the Redis of group {group.name}'s own does not answer")
    for entry in session.registry.instances.values():
        is_meant = entry.group == group.name and instance_id in ("", entry.instance_id)
        if is_meant and entry.number in session.away:
            raise DomainError(
                Code.UNSUPPORTED,
                f"the index of instance {entry.instance_id} is in a metadata process: what would go"
                " cannot be told from here",
            )


def _of_request(group: GroupEntry, wish: ReclaimRequest, found: ReclaimPreview) -> str:
    where = f"instance {wish.instance_id}" if wish.instance_id else f"group {group.name}"
    if wish.storage:
        where += f" on storage {wish.storage}"
    if found.obstacle:
        return f"Nothing of {where} would go: {found.obstacle.rstrip('.')}."
    if not found.planned_blocks:
        return f"Nothing of {where} would go."
    return f"{_amount(found)} of {where} would go, of {sized(found.evictable_bytes)} that may."


def _of_change(before: GroupEntry, after: GroupEntry, found: ReclaimPreview) -> str:
    limit, had = after.quota.capacity_bytes, before.quota.capacity_bytes
    if limit == had:
        doing = f"This change of group {after.name}"
    else:
        verb = "Lowering" if limit < had else "Raising"
        doing = f"{verb} the quota of group {after.name} to {sized(limit)}"
    used = sized(found.used_before_bytes)
    if found.planned_blocks:
        then = f"frees about {_amount(found)}: from {used} used to {sized(found.used_after_bytes)}"
    elif found.scopes:
        then = f"frees nothing: {used} are used, and none of it may go now"
    else:
        high = mark_of(after.reclaim, limit, used_bytes=after.reclaim.used_bytes).high
        then = f"frees nothing: {used} are used, and reclaim begins at {sized(high)}"
    over = found.used_after_bytes - limit
    more = f" {sized(over)} too much stay for now, and writes are refused meanwhile." if over > 0 else ""
    return f"{doing} {then}.{more}"


def _amount(found: ReclaimPreview) -> str:
    least = "" if found.is_complete else "at least "
    return f"{least}{sized(found.planned_bytes)} ({found.planned_blocks} blocks)"
