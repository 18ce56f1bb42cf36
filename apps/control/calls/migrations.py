"""Migrations between storages, over the platform's own package."""

from __future__ import annotations

from apps.common.actor import Role
from apps.control.calls.call import MIGRATIONS, Call, Rpc
from apps.copies.selectors import RunProgress, progress_of, run_get
from apps.copies.services import migration_cancel, migration_preview, migration_request
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.migration import CopyRequest
from kvcm_platform.core.types import Retention
from kvcm_platform.pb import kvcm_v1_pb2 as pb

_RETENTIONS = {
    pb.RETENTION_UNSPECIFIED: Retention.DELETE_SOURCE,
    pb.RETENTION_DELETE_SOURCE: Retention.DELETE_SOURCE,
    pb.RETENTION_KEEP_BOTH: Retention.KEEP_BOTH,
}
_FIELDS = {"source": "source_storage", "target": "target_storage", "name": "instance_group"}


def migrate_cache(call: Call) -> pb.MigrateCacheResponse:
    wish = _wish(call.request)
    if call.request.dry_run:
        found = migration_preview(acting=call.acting, wish=wish)
        return pb.MigrateCacheResponse(
            planned_blocks=found.moving_blocks,
            planned_bytes=found.moving_bytes,
            is_plan_complete=found.is_complete,
        )
    run = progress_of(migration_request(acting=call.acting, wish=wish))
    return pb.MigrateCacheResponse(
        migration_id=run.id,
        planned_blocks=run.planned_blocks or 0,
        planned_bytes=run.planned_bytes or 0,
        is_plan_complete=run.planned_bytes is not None,
    )


def get_migration(call: Call) -> pb.MigrationResponse:
    return _message(progress_of(run_get(acting=call.acting, run_id=call.request.migration_id)))


def cancel_migration(call: Call) -> pb.MigrationResponse:
    return _message(progress_of(migration_cancel(acting=call.acting, run_id=call.request.migration_id)))


def _wish(request: pb.MigrateCacheRequest) -> CopyRequest:
    retention = _RETENTIONS.get(request.retention)
    if retention is None:
        raise invalid("retention", f"{request.retention} is not one of this version")
    return CopyRequest(
        id="",
        group=request.instance_group,
        instance_id=request.instance_id,
        source=request.source_storage,
        target=request.target_storage,
        retention=retention,
        idle_seconds=request.idle_seconds,
        most_bytes=request.max_bytes,
        max_bytes_per_second=request.max_bytes_per_second,
    )


def _message(run: RunProgress) -> pb.MigrationResponse:
    eta = run.eta
    return pb.MigrationResponse(
        migration_id=run.id,
        state=run.state,
        planned_blocks=run.planned_blocks or 0,
        planned_bytes=run.planned_bytes or 0,
        copied_blocks=run.copied_blocks,
        copied_bytes=run.copied_bytes,
        there_blocks=run.there_blocks,
        skipped_blocks=run.skipped_blocks,
        failed_blocks=run.failed_blocks,
        eta_seconds=-1 if eta is None else round(eta.total_seconds()),
        stop=run.stop,
        detail=run.detail,
    )


RPCS = (
    Rpc("MigrateCache", migrate_cache, Role.OPERATOR, fields=_FIELDS, service=MIGRATIONS),
    Rpc("GetMigration", get_migration, Role.VIEWER, service=MIGRATIONS),
    Rpc("CancelMigration", cancel_migration, Role.OPERATOR, service=MIGRATIONS),
)
