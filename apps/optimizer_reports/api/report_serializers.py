"""Shapes of reports."""

from __future__ import annotations

from rest_framework import serializers

from apps.optimizer_reports.choices import MAIL_STATES, REPORT_STATES, REPORT_TRIGGERS


class ReportMailOutput(serializers.Serializer):
    """One message; `due_at` = when a queued one is tried next."""

    recipient = serializers.CharField()
    state = serializers.ChoiceField(choices=MAIL_STATES)
    attempts = serializers.IntegerField()
    due_at = serializers.DateTimeField()
    error = serializers.CharField(allow_blank=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class ReportFiguresOutput(serializers.Serializer):
    """What reports are compared by, of the first policy; null = the run does not say it."""

    policy = serializers.CharField()
    quota_bytes = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    token_hit_rate = serializers.FloatField(allow_null=True)
    unlimited_hit_rate = serializers.FloatField(allow_null=True)
    knee_capacity = serializers.IntegerField(allow_null=True)
    knee_hit_rate = serializers.FloatField(allow_null=True)
    unit = serializers.CharField()
    best_capacity_bytes = serializers.FloatField(allow_null=True)
    net_money_month = serializers.FloatField(allow_null=True)
    requests = serializers.IntegerField()
    blocks = serializers.IntegerField()
    span_seconds = serializers.FloatField()


class ReportChangeOutput(serializers.Serializer):
    """Against the report before: now minus then; null where one of the two does not say it."""

    report = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    best_capacity_ratio = serializers.FloatField(allow_null=True)
    is_changed = serializers.BooleanField()
    sentence = serializers.CharField()


class ReportOutput(serializers.Serializer):
    """`due_at` is the time of the schedule that it is for; null where somebody asked for it."""

    id = serializers.IntegerField()
    schedule = serializers.CharField()
    instance_group = serializers.CharField(allow_blank=True)
    due_at = serializers.DateTimeField(allow_null=True)
    trigger = serializers.ChoiceField(choices=REPORT_TRIGGERS)
    state = serializers.ChoiceField(choices=REPORT_STATES)
    trace = serializers.IntegerField(allow_null=True)
    run = serializers.IntegerField(allow_null=True)
    asked_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    figures = ReportFiguresOutput(allow_null=True)
    change = ReportChangeOutput(allow_null=True)
    is_changed = serializers.BooleanField()
    mails = ReportMailOutput(many=True)
