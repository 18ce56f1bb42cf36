"""The end of a run: once its last job is over, what it is worth telling is put on record."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.audit.services import event_record
from apps.common.conditions import Severity
from apps.optimizer_reports.choices import OPEN_JOBS, OPEN_RUNS, JobState, RunState
from apps.optimizer_reports.models import OptimizerJob, OptimizerRun
from apps.optimizer_reports.selectors.runs import results_of
from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis.spec import spec_from_json
from kvcm_platform.optimizer.analysis.summary import summarise


def run_settle(run_id: int) -> bool:
    """End a run none of whose jobs is open; True where this call did. Anybody may call it, at any time."""
    run = OptimizerRun.objects.filter(pk=run_id, state__in=OPEN_RUNS).first()
    if run is None or run.jobs.filter(state__in=OPEN_JOBS).exists():
        return False
    # Outside of the transaction: results may be large. They do not change any more.
    summary, trouble = _summary(run)
    with transaction.atomic():
        locked = OptimizerRun.objects.select_for_update().filter(pk=run_id, state__in=OPEN_RUNS).first()
        if locked is None or locked.jobs.filter(state__in=OPEN_JOBS).exists():
            return False
        failed = list(locked.jobs.filter(state=JobState.FAILED.value).order_by("number"))
        locked.state = _state(locked, failed, trouble).value
        locked.reason = _reason(locked, failed, trouble)
        locked.summary = summary
        locked.ended_at = timezone.now()
        if locked.state == RunState.DONE:
            locked.progress = 1.0
        locked.save()
        _tell(locked)
    return True


def _summary(run: OptimizerRun) -> tuple[dict[str, object] | None, str]:
    results = results_of(run)
    if not results:
        return None, ""
    try:
        return summarise(spec_from_json(run.spec), results), ""
    except DomainError as error:
        return None, error.message


def _state(run: OptimizerRun, failed: list[OptimizerJob], trouble: str) -> RunState:
    if run.is_cancel_asked:
        return RunState.CANCELLED
    return RunState.FAILED if failed or trouble else RunState.DONE


def _reason(run: OptimizerRun, failed: list[OptimizerJob], trouble: str) -> str:
    if not failed:
        return trouble
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"{failed[0].title}: {failed[0].reason}{more}"[:2000]


def _tell(run: OptimizerRun) -> None:
    title = run.name or f"{run.pk} of trace {run.trace_name}"
    sentence = {
        RunState.DONE: f"Optimizer run {title} is done.",
        RunState.FAILED: f"Optimizer run {title} failed: {run.reason}",
        RunState.CANCELLED: f"Optimizer run {title} was cancelled.",
    }[RunState(run.state)]
    event_record(
        at=run.ended_at,
        kind=f"optimizer_run.{run.state}",
        subject_kind="optimizer_run",
        subject=str(run.pk),
        message=sentence,
        severity=Severity.WARNING if run.state == RunState.FAILED else Severity.INFO,
        groups=None if run.is_of_all_groups else [group.name for group in run.groups.all()],
    )
