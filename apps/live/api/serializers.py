"""Shapes of the overview; the live topic sends the same."""

from __future__ import annotations

from rest_framework import serializers


class TotalsSerializer(serializers.Serializer):
    requests = serializers.IntegerField()
    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    written_blocks = serializers.IntegerField()
    write_refused = serializers.IntegerField()
    quota_refused = serializers.IntegerField()


class ProcessSerializer(serializers.Serializer):
    role = serializers.CharField()
    node = serializers.CharField()
    pid = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["ok", "late", "lost"])
    started_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    restarts = serializers.IntegerField()


class RpcSerializer(serializers.Serializer):
    name = serializers.CharField()
    per_second = serializers.FloatField()
    p50_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    errors = serializers.IntegerField()


class VerdictSerializer(serializers.Serializer):
    state = serializers.ChoiceField(choices=["ok", "degraded", "down"])
    reasons = serializers.ListField(child=serializers.CharField())


class HistoryPointSerializer(serializers.Serializer):
    at = serializers.DateTimeField()
    requests_per_second = serializers.FloatField()
    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    used_bytes = serializers.IntegerField()


class DaySerializer(serializers.Serializer):
    """The last 24 hours, or what there is of them; rates and latencies are null where nothing was asked."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    requests = serializers.IntegerField()
    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    requested_tokens = serializers.IntegerField()
    hit_tokens = serializers.IntegerField()
    token_hit_rate = serializers.FloatField(allow_null=True)
    written_blocks = serializers.IntegerField()
    written_bytes = serializers.IntegerField()
    removed_blocks = serializers.IntegerField()
    write_refused = serializers.IntegerField()
    quota_refused = serializers.IntegerField()
    failed_blocks = serializers.IntegerField()
    read_p50_ms = serializers.FloatField(allow_null=True)
    read_p99_ms = serializers.FloatField(allow_null=True)
    write_p50_ms = serializers.FloatField(allow_null=True)
    write_p99_ms = serializers.FloatField(allow_null=True)


class SavingsSerializer(serializers.Serializer):
    """What this month saved so far. Money and hours are null where no instance group has a cost model."""

    month = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    hit_tokens = serializers.IntegerField()
    token_hit_rate = serializers.FloatField(allow_null=True)
    currency = serializers.CharField(allow_blank=True)
    gpu_hours = serializers.FloatField(allow_null=True)
    saved_money = serializers.FloatField(allow_null=True)
    storage_money = serializers.FloatField(allow_null=True)
    net_money = serializers.FloatField(allow_null=True)


class OverviewSerializer(serializers.Serializer):
    requests_per_second = serializers.FloatField()
    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    totals = TotalsSerializer()
    used_bytes = serializers.IntegerField()
    reserved_bytes = serializers.IntegerField()
    pending_bytes = serializers.IntegerField()
    quota_bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()
    open_write_sessions = serializers.IntegerField()
    storages_healthy = serializers.IntegerField()
    storages_total = serializers.IntegerField()
    groups_total = serializers.IntegerField()
    instances_total = serializers.IntegerField()
    day = DaySerializer(allow_null=True)
    savings = SavingsSerializer(allow_null=True)
    processes = ProcessSerializer(many=True)
    rpcs = RpcSerializer(many=True)
    verdict = VerdictSerializer()
    history = HistoryPointSerializer(many=True)


class TicketSerializer(serializers.Serializer):
    token = serializers.CharField()
    expires_in_seconds = serializers.IntegerField()
