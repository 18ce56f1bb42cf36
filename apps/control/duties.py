"""What control does besides answering calls: lease, reconciliation, wake-ups, heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime

import redis
import structlog
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.utils import timezone

from apps.audit.services import event_record
from apps.capacity.services import reports_ingest
from apps.common.queue import COPIES_TASK, DUTIES_TASK, RECLAIM_TASK, enqueue
from apps.common.redis_client import blocks_client, figures_client, index_client
from apps.control.leader import Leader
from apps.control.life import LifeKeeper
from apps.control.services.memory_policy import memory_policies_note
from apps.control.services.purge import purge
from apps.control.services.reconcile import limits_publish, reconcile
from apps.instances.services import instances_note_seen
from apps.storages.services import departures_settle
from apps.usage.services import Sampler
from kvcm_platform.core.registry import Registry
from kvcm_platform.index import duties as index_duties
from kvcm_platform.index import heartbeat, keyspace, waking
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import counters

log = structlog.get_logger(__name__)

RECONCILE_SECONDS = 5.0
DUTIES_SECONDS = 0.2
HEARTBEAT_SECONDS = 1.0
SEEN_SECONDS = 10.0
REPORTS_SECONDS = 1.0
SAMPLE_SECONDS = 1.0
WAKE_BLOCK_MS = 200
COMPLAIN_SECONDS = 10.0
_AWAY = (redis.RedisError, DatabaseError, InterfaceError, OSError)
"""Of a store that does not answer."""


class Duties:
    """Loops of one process, each on threads of `executor`. An outage is waited out, and told now and then."""

    def __init__(self, leader: Leader, node_id: str, executor: Executor) -> None:
        self._leader = leader
        self._node_id = node_id
        self._executor = executor
        self._registry = Registry()
        self._wake_id = b"$"
        self._requests: dict[str, int] = {}
        self._life = LifeKeeper(leader, executor)
        self._sampler = Sampler()
        self._are_marks_out = False

    async def run(self) -> None:
        """Runs all loops until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(self._leader.step_seconds, "lease", self.lead))
            tasks.create_task(self._every(RECONCILE_SECONDS, "reconciliation", self._reconcile))
            tasks.create_task(self._every(DUTIES_SECONDS, "duties", self.look_for_work))
            tasks.create_task(self._every(HEARTBEAT_SECONDS, "heartbeat", self._beat))
            tasks.create_task(self._every(SEEN_SECONDS, "last seen", self.note_seen))
            tasks.create_task(self._every(SAMPLE_SECONDS, "usage history", self.sample_usage))
            tasks.create_task(self._every(0.0, "wake", self._follow_wake))
            tasks.create_task(self._every(REPORTS_SECONDS, "reclaim reports", self.take_reports))
            tasks.create_task(self._life.run())

    def stop(self) -> None:
        """The last act of an orderly stop: the lease goes to others, the process leaves the list."""
        try:
            self._leader.release()
            heartbeat.leave(index_client(), "control", self._node_id)
        except redis.RedisError as error:
            log.warning("could not take leave of the index", error=str(error))

    async def _every(self, seconds: float, name: str, work: Callable[[], object]) -> None:
        complained_at = -COMPLAIN_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await loop.run_in_executor(self._executor, _with_database, work)
            except Exception as error:
                # One kind of work that meets what it does not know must not end all others with the process.
                if loop.time() - complained_at >= COMPLAIN_SECONDS:
                    complained_at = loop.time()
                    if isinstance(error, _AWAY):
                        log.warning("background work waits", work=name, error=str(error))
                    else:
                        log.exception("background work failed", work=name)
                await asyncio.sleep(max(seconds, DUTIES_SECONDS))
                continue
            # Work that has grown long takes half of its thread's time at most.
            await asyncio.sleep(max(seconds, loop.time() - started) if seconds else 0)

    def lead(self) -> None:
        """Renew the lease or try to take it; who took it is told in the feed of events."""
        was_leader = self._leader.is_leader
        if self._leader.step() and not was_leader:
            event_record(
                at=timezone.now(),
                kind="control.leads",
                subject_kind="platform",
                subject=self._node_id,
                message=f"Control on {self._node_id} took over the background duties.",
            )

    def _reconcile(self) -> None:
        reconcile(client=index_client())
        if not self._are_marks_out:
            # A version that came anew changed nothing in the database, yet limits may mean more to it.
            limits_publish(client=index_client())
            self._are_marks_out = True
        if self._leader.is_leader:
            heartbeat.forget_lost(index_client())
            heartbeat.forget_functions(index_client())
            purge(client=blocks_client(), now=timezone.now())
            departures_settle(client=blocks_client(), now=timezone.now())
            memory_policies_note(client=figures_client())

    def _beat(self) -> None:
        if not self._life.has_judged:
            return  # a platform that is ready serves its blocks
        detail = {"is_leader": self._leader.is_leader, "fence": self._leader.fence}
        heartbeat.beat(index_client(), "control", self._node_id, detail)

    def look_for_work(self) -> None:
        """Send the duties task when something is due and none is on its way."""
        if not self._leader.is_leader:
            return
        client = index_client()
        version = index_registry.read_version(client)
        if version is not None and version != self._registry.version:
            self._registry = index_registry.read(client)
        if index_duties.anything_due(figures_client(), self._registry):
            _send_duties(client)

    def _follow_wake(self) -> None:
        """Wait for the next wake-ups; entries seen by a node that does not lead are another's."""
        client = index_client()
        if self._wake_id == b"$":
            newest = client.xrevrange(keyspace.WAKE, count=1)
            self._wake_id = newest[0][0] if newest else b"0-0"
        for _, entries in client.xread({keyspace.WAKE: self._wake_id}, count=1000, block=WAKE_BLOCK_MS) or ():
            self._wake_id = entries[-1][0]
            if self._leader.is_leader:
                self._wake(client, [fields for _, fields in entries])

    def _wake(self, client: redis.Redis, entries: Sequence[Mapping[bytes, bytes]]) -> None:
        """Whatever a group needs room for may be freed by any of these: each task is sent once for all."""
        reasons = {fields.get(b"reason", b"").decode() for fields in entries}
        if reasons & waking.NEED_ROOM:
            _send_reclaim(client)
        if reasons - {waking.Wake.MARK, waking.Wake.LIMITS, waking.Wake.STORAGE}:
            _send_duties(client)
        if any(self._migrates(fields) for fields in entries):
            _send_copies(client)

    def _migrates(self, entry: Mapping[bytes, bytes]) -> bool:
        """Whether a policy of the group that an entry tells of may make room."""
        groups = self._registry.groups
        if b"number" in entry:
            known = next((g for g in groups.values() if g.number == int(entry[b"number"])), None)
        else:
            known = groups.get(entry.get(b"group", b"").decode())
        return known is not None and known.migration is not None and known.migration.is_enabled

    def take_reports(self) -> None:
        """What reclaimers report, those of metadata processes among them, goes on record."""
        if self._leader.is_leader:
            reports_ingest(client=index_client())

    def sample_usage(self) -> None:
        """Of what is held and done there is one history, written by the node that leads."""
        if self._leader.is_leader:
            self._sampler.step(figures_client())
        else:
            self._sampler.stop()

    def note_seen(self) -> None:
        """Instances whose request counter moved since the last look were there in between."""
        if not self._leader.is_leader:
            return
        ids = list(self._registry.instances)
        requests = {name: total.requests for name, total in counters(index_client(), ids).items()}
        moved = [name for name, count in requests.items() if count > self._requests.get(name, count)]
        self._requests = requests
        instances_note_seen(instance_ids=moved, at=datetime.fromtimestamp(time.time(), UTC))


def _send_duties(client: redis.Redis) -> None:
    if index_duties.enqueue_once(client) and not enqueue(DUTIES_TASK):
        index_duties.begun(client)


def _send_copies(client: redis.Redis) -> None:
    if index_duties.enqueue_once(client, name=keyspace.COPIES_QUEUED):
        enqueue(COPIES_TASK)


def _send_reclaim(client: redis.Redis) -> None:
    if index_duties.enqueue_once(client, name=keyspace.RECLAIM_QUEUED):
        enqueue(RECLAIM_TASK)


def _with_database(work: Callable[[], object]) -> object:
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()
