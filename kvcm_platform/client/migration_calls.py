"""Every RPC about migrations as a value, as `calls` has those of blocks."""

from __future__ import annotations

from dataclasses import dataclass

from kvcm_platform.core.types import Retention
from kvcm_platform.pb import kvcm_v1_pb2 as v1

from .calls import Call, trace_or_random

MIGRATIONS = "migrations"


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """`migration_id` is 0 for a dry run; figures of a plan that is not complete are lower bounds."""

    migration_id: int
    planned_blocks: int
    planned_bytes: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far a migration is. `eta_seconds` is None while nothing tells."""

    migration_id: int
    state: str
    planned_blocks: int
    planned_bytes: int
    copied_blocks: int
    copied_bytes: int
    there_blocks: int
    skipped_blocks: int
    failed_blocks: int
    eta_seconds: int | None
    stop: str
    detail: str

    @property
    def is_over(self) -> bool:
        return self.state not in {"queued", "running"}


def migrate_cache(
    source: str,
    target: str,
    *,
    instance_group: str = "",
    instance_id: str = "",
    retention: Retention = Retention.DELETE_SOURCE,
    idle_seconds: int = 0,
    max_bytes: int = 0,
    max_bytes_per_second: int = 0,
    dry_run: bool = False,
    trace_id: str = "",
) -> Call[MigrationPlan]:
    """Let the blocks of a group or an instance go from one storage to another, in the background.

    KvcmError: INVALID_ARGUMENT for unknown names, REACH_MAX_ENTITY_CAPACITY where too much is under way.
    """
    request = v1.MigrateCacheRequest(
        trace_id=trace_or_random(trace_id),
        instance_group=instance_group,
        instance_id=instance_id,
        source_storage=source,
        target_storage=target,
        retention=v1.Retention.Value(f"RETENTION_{retention.name}"),
        idle_seconds=idle_seconds,
        max_bytes=max_bytes,
        max_bytes_per_second=max_bytes_per_second,
        dry_run=dry_run,
    )
    return Call("MigrateCache", request, _read_plan, is_safe=dry_run, service=MIGRATIONS)


def get_migration(migration_id: int, *, trace_id: str = "") -> Call[MigrationProgress]:
    """How far it is."""
    request = v1.GetMigrationRequest(trace_id=trace_or_random(trace_id), migration_id=migration_id)
    return Call("GetMigration", request, _read_progress, is_safe=True, service=MIGRATIONS)


def cancel_migration(migration_id: int, *, trace_id: str = "") -> Call[MigrationProgress]:
    """End it; what was copied stays where it is."""
    request = v1.CancelMigrationRequest(trace_id=trace_or_random(trace_id), migration_id=migration_id)
    return Call("CancelMigration", request, _read_progress, is_safe=False, service=MIGRATIONS)


def _read_plan(answer: v1.MigrateCacheResponse) -> MigrationPlan:
    return MigrationPlan(
        answer.migration_id, answer.planned_blocks, answer.planned_bytes, answer.is_plan_complete
    )


def _read_progress(answer: v1.MigrationResponse) -> MigrationProgress:
    return MigrationProgress(
        migration_id=answer.migration_id,
        state=answer.state,
        planned_blocks=answer.planned_blocks,
        planned_bytes=answer.planned_bytes,
        copied_blocks=answer.copied_blocks,
        copied_bytes=answer.copied_bytes,
        there_blocks=answer.there_blocks,
        skipped_blocks=answer.skipped_blocks,
        failed_blocks=answer.failed_blocks,
        eta_seconds=None if answer.eta_seconds < 0 else answer.eta_seconds,
        stop=answer.stop,
        detail=answer.detail,
    )
