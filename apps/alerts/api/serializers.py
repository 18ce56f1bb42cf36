"""Shapes of alerts. Ranges are checked by the services, for every door alike."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.alerts.choices import ALERT_STATES, DELIVERY_STATES, EVENTS, SEVERITIES
from apps.alerts.models import Alert, AlertDelivery, AlertSilence, AlertTransition
from apps.alerts.selectors import alert_groups
from apps.common.api.strict import StrictSerializer


class ParameterOutput(serializers.Serializer):
    name = serializers.CharField()
    default = serializers.FloatField()
    minimum = serializers.FloatField()
    maximum = serializers.FloatField()
    unit = serializers.CharField()
    help = serializers.CharField()


class ConditionOutput(serializers.Serializer):
    """Something that may go wrong, as an app declares it, and how a rule about it begins."""

    name = serializers.CharField()
    title = serializers.CharField()
    help = serializers.CharField()
    subject_kind = serializers.CharField()
    unit = serializers.CharField()
    severity = serializers.ChoiceField(choices=SEVERITIES)
    for_seconds = serializers.IntegerField()
    keep_firing_seconds = serializers.IntegerField()
    parameters = ParameterOutput(many=True)


class RuleOutput(serializers.Serializer):
    """`evaluation_error` says why the rule could not be evaluated; its alerts stay meanwhile."""

    name = serializers.CharField()
    condition = serializers.CharField()
    parameters = serializers.DictField(child=serializers.FloatField())
    severity = serializers.ChoiceField(choices=SEVERITIES)
    for_seconds = serializers.IntegerField()
    keep_firing_seconds = serializers.IntegerField()
    subjects = serializers.ListField(child=serializers.CharField())
    enabled = serializers.BooleanField(source="is_enabled")
    evaluated_at = serializers.DateTimeField(allow_null=True)
    evaluation_error = serializers.CharField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class RuleChange(StrictSerializer):
    """A partial update: what is absent stays. `version` or If-Match guards against lost updates."""

    version = serializers.IntegerField(required=False)
    parameters = serializers.DictField(child=serializers.FloatField(), required=False)
    severity = serializers.ChoiceField(choices=SEVERITIES, required=False)
    for_seconds = serializers.IntegerField(required=False)
    keep_firing_seconds = serializers.IntegerField(required=False)
    subjects = serializers.ListField(child=serializers.CharField(), required=False)
    enabled = serializers.BooleanField(source="is_enabled", required=False)


class RuleInput(RuleChange):
    """A new rule."""

    version = None
    name = serializers.CharField(allow_blank=True)
    condition = serializers.CharField()


class AlertOutput(serializers.ModelSerializer):
    """`groups` = the instance groups concerned that the asking account may see; null = all of them alike."""

    rule = serializers.CharField(source="rule_name")
    state = serializers.ChoiceField(choices=ALERT_STATES)
    severity = serializers.ChoiceField(choices=SEVERITIES)
    groups = serializers.SerializerMethodField()
    acknowledged = serializers.SerializerMethodField()
    silenced = serializers.BooleanField(source="is_silenced")

    class Meta:
        model = Alert
        fields = (
            *("id", "rule", "condition", "subject_kind", "subject", "state", "severity", "message"),
            *("value", "unit", "groups", "since", "last_seen_at", "fired_at", "resolved_at"),
            *("acknowledged", "acknowledged_at", "acknowledged_by", "acknowledge_note", "silenced"),
        )
        read_only_fields = fields

    def get_groups(self, alert: Alert) -> list[str] | None:
        return alert_groups(alert, visible=self.context["request"].actor.groups)

    def get_acknowledged(self, alert: Alert) -> bool:
        return alert.acknowledged_at is not None


class TransitionOutput(serializers.ModelSerializer):
    """A step in an alert's life; `by` is empty where the evaluation took it."""

    class Meta:
        model = AlertTransition
        fields = ("at", "what", "message", "by")
        read_only_fields = fields


class AcknowledgeInput(StrictSerializer):
    """Whether somebody looks after the alert, and what they have to say."""

    acknowledged = serializers.BooleanField(source="is_acknowledged", default=True)
    note = serializers.CharField(allow_blank=True, default="")


class SilenceInput(StrictSerializer):
    """Empty `rule` and `subject` fit everything; `subject` may hold `*` and `?`."""

    rule = serializers.CharField(source="rule_name", allow_blank=True, default="")
    subject = serializers.CharField(allow_blank=True, default="")
    until = serializers.DateTimeField()
    reason = serializers.CharField()


class SilenceOutput(serializers.ModelSerializer):
    rule = serializers.CharField(source="rule_name")

    class Meta:
        model = AlertSilence
        fields = ("id", "rule", "subject", "until", "reason", "created_by", "created_at")
        read_only_fields = fields


class ReceiverChange(StrictSerializer):
    """A partial update; `secret` is written only, the empty one sends no such header."""

    version = serializers.IntegerField(required=False)
    url = serializers.CharField(required=False)
    secret_header = serializers.CharField(required=False)
    secret = serializers.CharField(required=False, allow_blank=True, write_only=True, trim_whitespace=False)
    least_severity = serializers.ChoiceField(choices=SEVERITIES, required=False)
    sends_resolved = serializers.BooleanField(required=False)
    timeout_seconds = serializers.FloatField(required=False)
    enabled = serializers.BooleanField(source="is_enabled", required=False)


class ReceiverInput(ReceiverChange):
    """A new receiver."""

    version = None
    name = serializers.CharField(allow_blank=True)
    url = serializers.CharField()


class ReceiverOutput(serializers.Serializer):
    name = serializers.CharField()
    url = serializers.CharField()
    secret_header = serializers.CharField()
    has_secret = serializers.SerializerMethodField()
    least_severity = serializers.ChoiceField(choices=SEVERITIES)
    sends_resolved = serializers.BooleanField()
    timeout_seconds = serializers.FloatField()
    enabled = serializers.BooleanField(source="is_enabled")
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_has_secret(self, receiver: Any) -> bool:
        return bool(receiver.secret)


class DeliveryOutput(serializers.ModelSerializer):
    """One message to a receiver. `due_at` = when a queued one is tried next."""

    state = serializers.ChoiceField(choices=DELIVERY_STATES)
    event = serializers.ChoiceField(choices=EVENTS)

    class Meta:
        model = AlertDelivery
        fields = (
            *("id", "alert", "event", "state", "attempts", "status", "error", "latency_ms"),
            *("due_at", "created_at", "ended_at"),
        )
        read_only_fields = fields
