"""Writes that every feature shares: numbers never given twice, and the publication of the registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

import redis
import structlog
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from apps.common.models import (
    IndexStamp,
    Installation,
    NumberSequence,
    PendingPublication,
    RegistryRemoval,
    RegistryState,
    StepDone,
)
from apps.common.redis_client import index_client
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import Entry
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.waking import Wake, wake_command

log = structlog.get_logger(__name__)

TRACES_STAY = timedelta(hours=1)
"""No publication is under way for longer than this."""


class Removed(NamedTuple):
    """An object that left; kinds are "storage", "segment", "group", "instance". `number` names its keys."""

    kind: str
    name: str
    number: int


def number_next(*, kind: str, at_most: int) -> int:
    """The next number of `kind`, inside the caller's transaction. Raises CAPACITY when none is left."""
    raised = {"last": F("last") + 1}
    if not NumberSequence.objects.filter(kind=kind).update(**raised):
        # The very first one; of several at once the others wait here for the one that inserts.
        NumberSequence.objects.bulk_create([NumberSequence(kind=kind)], ignore_conflicts=True)
        NumberSequence.objects.filter(kind=kind).update(**raised)
    number = NumberSequence.objects.values_list("last", flat=True).get(kind=kind)
    if number > at_most:
        raise DomainError(Code.CAPACITY, f"all {at_most} numbers of kind {kind} were given out")
    return number


def registry_version_raise() -> int:
    """The new version of the whole registry.

    The row stays locked until the caller commits, so versions are in the order of the commits.
    """
    raised = {"version": F("version") + 1}
    if not RegistryState.objects.update(**raised):
        RegistryState.objects.bulk_create([RegistryState()], ignore_conflicts=True)
        RegistryState.objects.update(**raised)
    return RegistryState.objects.values_list("version", flat=True).get()


@dataclass(slots=True)
class Publication:
    """What one transaction changed in the registry, and what became of telling Redis about it."""

    version: int
    changed: Sequence[Entry]
    removed: Sequence[Removed]
    error: str = ""
    is_done: bool = False

    def send(self) -> None:
        """Publish. Never raises: the change is committed, and control publishes it again within 5 s."""
        try:
            index_registry.publish(
                index_client(),
                version=self.version,
                changed=list(self.changed),
                removed=[(gone.kind, gone.name) for gone in self.removed],
            )
            PendingPublication.objects.filter(version=self.version).delete()
            self.is_done = True
        except redis.RedisError as error:
            self.error = str(error) or type(error).__name__
            log.warning("registry not published yet", version=self.version, error=self.error)


def wake_on_commit(reason: Wake, **fields: str) -> None:
    """Add to the stream of wakes when this transaction commits; call it after the publication.

    A wake that is lost costs the seconds until the next look at all groups.
    """

    def send() -> None:
        try:
            index_client().execute_command(*wake_command(reason, **fields))
        except redis.RedisError as error:
            log.warning("nobody was woken", reason=reason.value, error=str(error), **fields)

    transaction.on_commit(send)


def registry_publish_on_commit(
    make: Callable[[int], Sequence[Entry]], *, removed: Sequence[Removed] = ()
) -> Publication:
    """Raise the registry's version in this transaction and publish when it commits.

    `make` gets the new version and returns the changed entries as they are now.
    """
    version = registry_version_raise()
    PendingPublication.objects.create(version=version)
    removals_note(version=version, removed=removed)
    publication = Publication(version=version, changed=make(version), removed=removed)
    transaction.on_commit(publication.send)
    return publication


@transaction.atomic
def registry_version_lift(*, above: int) -> int:
    """Make the version higher than `above`: after a restore the index may be ahead of the database."""
    version = registry_version_raise()
    if version <= above:
        version = above + 1
        RegistryState.objects.update(version=version)
    return version


def publications_settle(*, versions: Collection[int]) -> None:
    """Forget pending publications that a publication of everything has covered."""
    PendingPublication.objects.filter(version__in=versions).delete()


def removals_note(*, version: int, removed: Collection[Removed]) -> None:
    """Remember what left the registry in `version`, so that its traces in the index are purged later."""
    due_at = timezone.now() + TRACES_STAY
    RegistryRemoval.objects.bulk_create(
        RegistryRemoval(**gone._asdict(), version=version, due_at=due_at) for gone in removed
    )


def removals_forget(*, ids: Collection[int]) -> None:
    """The traces of these are purged."""
    RegistryRemoval.objects.filter(pk__in=ids).delete()


def removals_postpone(*, ids: Collection[int], until: datetime) -> None:
    """These still have data in the index; look again later."""
    RegistryRemoval.objects.filter(pk__in=ids).update(due_at=until)


def step_done(*, name: str) -> None:
    """Note that a step of the installation was done."""
    StepDone.objects.get_or_create(name=name)


@transaction.atomic
def index_stamps_store(*, stamps: Mapping[str, int]) -> None:
    """Keep stamps of the index (kvcm_platform.index.life); they never go back."""
    known = dict(IndexStamp.objects.values_list("key", "at_ms"))
    newer = [IndexStamp(key=key, at_ms=at) for key, at in stamps.items() if at > known.get(key, 0)]
    IndexStamp.objects.bulk_create(
        newer, update_conflicts=True, unique_fields=["key"], update_fields=["at_ms"]
    )


def installation_name() -> str:
    """The name of this installation, given on first use. A copy of the database has the same one."""
    known = Installation.objects.values_list("name", flat=True).first()
    if known is None:
        # Of several at once the first one counts.
        Installation.objects.bulk_create([Installation(name=uuid4().hex)], ignore_conflicts=True)
        known = Installation.objects.values_list("name", flat=True).get()
    return known
