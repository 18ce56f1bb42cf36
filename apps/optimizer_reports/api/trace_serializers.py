"""Shapes of traces. Ranges and required members are checked by the services."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.common.api.strict import StrictSerializer
from apps.optimizer_reports.choices import TRACE_SOURCES, TRACE_STATES
from apps.optimizer_reports.services import TraceWish
from apps.optimizer_reports.services.live_captures import USUAL_BYTES


class ReadingFields(StrictSerializer):
    """How a source is to be read; 0 and empty = as the trace says, or is detected."""

    format = serializers.CharField(required=False, allow_blank=True, default="", help_text="empty = detect")
    block_tokens = serializers.IntegerField(default=0)
    block_bytes = serializers.IntegerField(default=0)
    one_namespace = serializers.BooleanField(
        default=False, help_text="equal keys of all instances are one block"
    )
    max_bad_lines = serializers.IntegerField(default=100, help_text="more end the reading")
    as_turns = serializers.BooleanField(
        default=None,
        allow_null=True,
        help_text="reads and writes of an event log become turns, which curves need; null: of captures only",
    )


class TraceUploadInput(ReadingFields):
    """A form with the source file, plain or packed by gzip or zstd."""

    file = serializers.FileField(allow_empty_file=True)
    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=128)
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=4000)


def wish_of(data: dict[str, Any]) -> TraceWish:
    """The wish of valid `ReadingFields`, with a name where there is one."""
    wish = {name: value for name, value in data.items() if name != "file"}
    if wish.get("format") == "detect":
        wish["format"] = ""
    return TraceWish(**wish)


class TraceGenerateInput(StrictSerializer):
    """A generated trace of sessions with many turns, to try things with."""

    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=128)
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=4000)
    requests = serializers.IntegerField(default=50_000)
    seed = serializers.IntegerField(default=0)
    instances = serializers.IntegerField(default=1)
    block_bytes = serializers.IntegerField(default=0)


class TraceCaptureInput(StrictSerializer):
    """Live traffic of some instances, for a while or until the packed file has `max_bytes`."""

    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=128)
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=4000)
    instances = serializers.ListField(child=serializers.CharField(), max_length=1000)
    seconds = serializers.IntegerField()
    max_bytes = serializers.IntegerField(default=USUAL_BYTES)


class NameNoteInput(StrictSerializer):
    """What of a trace or run may be changed."""

    name = serializers.CharField(required=False, allow_blank=True, max_length=128)
    note = serializers.CharField(required=False, allow_blank=True, max_length=4000)


class BadLineOutput(serializers.Serializer):
    """A line that was skipped."""

    number = serializers.IntegerField()
    reason = serializers.CharField()


class TraceOutput(serializers.Serializer):
    """One trace. `groups` null = of all instance groups alike. Counts are 0 until it is ready."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    note = serializers.CharField()
    source = serializers.ChoiceField(choices=TRACE_SOURCES)
    state = serializers.ChoiceField(choices=TRACE_STATES)
    format = serializers.CharField()
    format_wanted = serializers.CharField()
    options = serializers.DictField()
    capture = serializers.DictField(allow_null=True)
    added_by = serializers.CharField()
    added_at = serializers.DateTimeField()
    ready_at = serializers.DateTimeField(allow_null=True)
    groups = serializers.ListField(child=serializers.CharField(), allow_null=True)
    file_name = serializers.CharField()
    file_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    stored_bytes = serializers.IntegerField()
    progress = serializers.FloatField()
    reason = serializers.CharField()
    bad_line_count = serializers.IntegerField()
    first_bad_line = BadLineOutput(allow_null=True)
    requests = serializers.IntegerField()
    blocks = serializers.IntegerField()
    distinct_blocks = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    starts_at = serializers.DateTimeField(allow_null=True)
    span_seconds = serializers.FloatField()
    instance_count = serializers.IntegerField()
    type_count = serializers.IntegerField()
    has_only_turns = serializers.BooleanField()


class TraceInstanceOutput(serializers.Serializer):
    """An instance whose traffic a trace shows."""

    instance_id = serializers.CharField()
    group = serializers.CharField()
    block_tokens = serializers.IntegerField()
    block_bytes = serializers.IntegerField()
    requests = serializers.IntegerField()
    blocks = serializers.IntegerField()
    input_tokens = serializers.IntegerField()


class TraceTypeOutput(serializers.Serializer):
    """A type of requests; its name may be empty."""

    name = serializers.CharField()
    requests = serializers.IntegerField()
    blocks = serializers.IntegerField()
    input_tokens = serializers.IntegerField()


class TraceDetail(TraceOutput):
    """One trace with what is in it."""

    bad_lines = BadLineOutput(many=True)
    instances = TraceInstanceOutput(many=True)
    types = TraceTypeOutput(many=True)
    details = serializers.DictField()
