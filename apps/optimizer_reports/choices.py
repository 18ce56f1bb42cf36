"""States and kinds of traces, runs and jobs."""

from __future__ import annotations

from enum import StrEnum

from apps.common.choices import choices_of


class TraceSource(StrEnum):
    """Where a trace comes from."""

    UPLOAD = "upload"
    CAPTURE = "capture"
    GENERATED = "generated"


class TraceState(StrEnum):
    CAPTURING = "capturing"
    """Live traffic is being written to its source file."""
    RECEIVED = "received"
    """Its source is complete (or is to be generated) and waits to be read."""
    READING = "reading"
    READY = "ready"
    FAILED = "failed"


class RunOrigin(StrEnum):
    REQUEST = "request"
    SCHEDULE = "schedule"


class RunState(StrEnum):
    """`failed` = a job failed; what the others found stays."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobKind(StrEnum):
    READ = "read"
    """Makes the columns of a trace."""
    ANALYSE = "analyse"
    """One part of a run."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNREAD = (TraceState.CAPTURING.value, TraceState.RECEIVED.value, TraceState.READING.value)
OPEN_RUNS = (RunState.QUEUED.value, RunState.RUNNING.value)
OPEN_JOBS = (JobState.QUEUED.value, JobState.RUNNING.value)
TRACE_SOURCES = choices_of(TraceSource)
TRACE_STATES = choices_of(TraceState)
RUN_ORIGINS = choices_of(RunOrigin)
RUN_STATES = choices_of(RunState)
JOB_KINDS = choices_of(JobKind)
JOB_STATES = choices_of(JobState)
