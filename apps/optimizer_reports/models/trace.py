"""Traces on record; their files lie below the data dir, in a folder of each trace's own."""

from __future__ import annotations

from django.db import models

from apps.optimizer_reports.choices import TRACE_SOURCES, TRACE_STATES, TraceState


class OptimizerTrace(models.Model):
    """One trace: its source file as it came, and what was found in it once it was read.

    The row is made after the source file is complete, and goes before its files do: files without a row
    are swept. `is_of_all_groups` = a matter of no instance group, or of all; else `groups` names those
    whose traffic it shows, and accounts limited to some see it when all of these are theirs.
    """

    name = models.CharField(max_length=128)
    note = models.TextField(blank=True)
    source = models.CharField(max_length=16, choices=TRACE_SOURCES)
    state = models.CharField(max_length=16, choices=TRACE_STATES, default=TraceState.RECEIVED.value)
    folder = models.CharField(max_length=32, unique=True)
    """Name of its folder below `optimizer/traces`."""
    format_wanted = models.CharField(max_length=32, blank=True)
    """The format that the caller named; empty = to be detected."""
    options = models.JSONField(default=dict)
    """How it is to be read (block_tokens, block_bytes, one_namespace, max_bad_lines), or generated."""
    capture = models.JSONField(null=True)
    """Of a capture: instances, seconds, and the figures so far (events, dropped, bytes)."""
    added_by = models.CharField(max_length=150)
    added_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    is_of_all_groups = models.BooleanField(default=True)

    file_name = models.CharField(max_length=256, blank=True)
    file_bytes = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    stored_bytes = models.BigIntegerField(default=0)
    """Of all its files."""

    progress = models.FloatField(default=0.0)
    """Share of the source that was read, 0..1."""
    reason = models.TextField(blank=True)
    """Why it cannot be used."""
    format = models.CharField(max_length=32, blank=True)
    bad_line_count = models.BigIntegerField(default=0)
    bad_lines = models.JSONField(default=list)
    """The first ones that were skipped: [{number, reason}]."""
    requests = models.BigIntegerField(default=0)
    blocks = models.BigIntegerField(default=0)
    distinct_blocks = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    span_us = models.BigIntegerField(default=0)
    starts_at = models.DateTimeField(null=True)
    """Time of its first request; None where it has relative times only."""
    instances = models.JSONField(default=list)
    """[{instance_id, group, block_tokens, block_bytes, requests, blocks}]"""
    types = models.JSONField(default=list)
    """[{name, requests, blocks}]"""
    details = models.JSONField(default=dict)
    """events (requests by kind), sessions, longest, distinct_bytes, has_partial_blocks, notes."""

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "-id"], name="optimizer_trace_state")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(progress__gte=0, progress__lte=1), name="optimizer_trace_progress"
            )
        ]

    def __str__(self) -> str:
        return f"trace {self.name}: {self.state}"


class OptimizerTraceGroup(models.Model):
    """An instance group whose traffic a trace shows. The name, not a reference: the group may go."""

    trace = models.ForeignKey(OptimizerTrace, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=128, db_index=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["trace", "name"], name="optimizer_trace_group_once")]

    def __str__(self) -> str:
        return f"{self.trace_id} shows {self.name}"
