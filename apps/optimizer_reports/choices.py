"""States and kinds of traces, runs and jobs."""

from __future__ import annotations

from enum import StrEnum

from apps.common.choices import choices_of
from kvcm_platform.optimizer.advice_kinds import AdviceKind


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


class ReportSource(StrEnum):
    """What a scheduled report is made of."""

    TRACE = "trace"
    """The same trace each time."""
    CAPTURE = "capture"
    """Live traffic, captured anew each time."""
    LAST_CAPTURE = "last_capture"
    """The newest capture that is ready."""


class ReportTrigger(StrEnum):
    SCHEDULE = "schedule"
    REQUEST = "request"


class ReportState(StrEnum):
    """`skipped` = the report before it was still under way when it was due."""

    COLLECTING = "collecting"
    """Its trace is captured and read, or waited for."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class MailWhen(StrEnum):
    """Which reports recipients get."""

    ALWAYS = "always"
    CHANGED = "changed"
    """Those that differ from the one before by more than the thresholds, and those that failed."""
    NEVER = "never"


class MailState(StrEnum):
    QUEUED = "queued"
    SENT = "sent"
    FAILED = "failed"


class AdviceState(StrEnum):
    """`superseded` = a newer run says something else, or the same anew."""

    OPEN = "open"
    APPLIED = "applied"
    UNDONE = "undone"
    DISMISSED = "dismissed"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


OPEN_REPORTS = (ReportState.COLLECTING.value, ReportState.RUNNING.value)
REPORT_SOURCES = choices_of(ReportSource)
REPORT_TRIGGERS = choices_of(ReportTrigger)
REPORT_STATES = choices_of(ReportState)
MAIL_WHENS = choices_of(MailWhen)
MAIL_STATES = choices_of(MailState)
ADVICE_STATES = choices_of(AdviceState)
ADVICE_KINDS = choices_of(AdviceKind)
