"""Traces, runs and jobs as REST and the live topic show them."""

from __future__ import annotations

from typing import Any

from apps.optimizer_reports.models import OptimizerJob, OptimizerRun, OptimizerTrace

_TRACE = (
    *("id", "name", "note", "source", "state", "format", "format_wanted", "options", "added_by"),
    *("added_at", "ready_at", "file_name", "file_bytes", "sha256", "stored_bytes", "progress", "reason"),
    *("bad_line_count", "requests", "blocks", "distinct_blocks", "input_tokens", "output_tokens"),
    *("starts_at",),
)
_RUN = (
    *("id", "name", "note", "origin", "trace_name", "state", "progress", "estimate_seconds", "asked_by"),
    *("asked_at", "started_at", "ended_at", "reason"),
)
_JOB = (
    *("number", "policy", "title", "state", "progress", "estimate_seconds", "busy_seconds", "started_at"),
    *("ended_at", "reason", "tries", "peak_bytes"),
)


def trace_shown(trace: OptimizerTrace) -> dict[str, Any]:
    """The members of a list; `TraceOutput` describes them."""
    return {
        **{name: getattr(trace, name) for name in _TRACE},
        "capture": _capture(trace),
        "span_seconds": trace.span_us / 1e6,
        "instance_count": len(trace.instances),
        "type_count": len(trace.types),
        "groups": None if trace.is_of_all_groups else [group.name for group in trace.groups.all()],
        "first_bad_line": trace.bad_lines[0] if trace.bad_lines else None,
        "has_only_turns": not any(
            count for kind, count in trace.details.get("events", {}).items() if kind != "turn"
        ),
    }


def _capture(trace: OptimizerTrace) -> dict[str, Any] | None:
    """All but what the writer of the file keeps for itself."""
    if trace.capture is None:
        return None
    return {name: value for name, value in trace.capture.items() if name != "state"}


def trace_detail(trace: OptimizerTrace) -> dict[str, Any]:
    """The members of one alone: `TraceDetail`."""
    return {
        **trace_shown(trace),
        "bad_lines": trace.bad_lines,
        "instances": trace.instances,
        "types": trace.types,
        "details": trace.details,
    }


def run_shown(run: OptimizerRun) -> dict[str, Any]:
    """The members of a list; `RunOutput` describes them."""
    return {
        **{name: getattr(run, name) for name in _RUN},
        "trace": run.trace_id,
        "instance_group": run.group_name,
        "groups": None if run.is_of_all_groups else [group.name for group in run.groups.all()],
        "cancel_requested": run.is_cancel_asked,
        "policies": run.spec.get("policies", []),
        "unit": run.spec.get("unit", ""),
        "duration_seconds": _duration(run),
        "summary": run.summary,
    }


def run_detail(run: OptimizerRun, jobs: list[OptimizerJob]) -> dict[str, Any]:
    """The members of one alone: `RunDetail`."""
    return {
        **run_shown(run),
        "spec": run.spec,
        "trace_facts": run.trace_facts,
        "jobs": [job_shown(job) for job in jobs],
    }


def job_shown(job: OptimizerJob) -> dict[str, Any]:
    return {name: getattr(job, name) for name in _JOB}


def _duration(run: OptimizerRun) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, (run.ended_at - run.started_at).total_seconds())
