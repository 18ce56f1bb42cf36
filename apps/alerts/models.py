"""Rules, the alerts that they raised, silences, and the receivers that are told."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.alerts.choices import ALERT_STATES, DELIVERY_STATES, EVENTS, SEVERITIES, AlertState, DeliveryState


class AlertRule(models.Model):
    """When a condition of some app becomes an alert. `subjects` are patterns of names, none = all."""

    name = models.CharField(max_length=128, unique=True)
    condition = models.CharField(max_length=64)
    parameters = models.JSONField(default=dict)
    severity = models.CharField(max_length=16, choices=SEVERITIES)
    for_seconds = models.PositiveIntegerField(default=0)
    keep_firing_seconds = models.PositiveIntegerField(default=0)
    subjects = models.JSONField(default=list)
    is_enabled = models.BooleanField(default=True)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    evaluated_at = models.DateTimeField(null=True)
    evaluation_error = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """One time that a rule's condition held for a subject. Names are text: an alert outlives both.

    `since` is when it began to hold, `last_seen_at` when it last did. `notified_at` is when receivers
    were told that it fires; while it is empty they still have to be.
    """

    rule_name = models.CharField(max_length=128)
    condition = models.CharField(max_length=64)
    subject_kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=256)
    state = models.CharField(max_length=16, choices=ALERT_STATES)
    severity = models.CharField(max_length=16, choices=SEVERITIES)
    value = models.FloatField(null=True)
    unit = models.CharField(max_length=16, blank=True)
    message = models.TextField()
    is_of_all_groups = models.BooleanField(default=False)
    since = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True, db_index=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledge_note = models.TextField(blank=True)
    is_silenced = models.BooleanField(default=False)
    notified_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "severity"], name="alert_state")]
        constraints = [
            # The guard against raising one alert twice, whoever evaluates.
            models.UniqueConstraint(
                fields=["rule_name", "subject"],
                condition=~Q(state=AlertState.RESOLVED.value),
                name="alert_is_raised_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule_name} {self.subject} {self.state}"


class AlertGroup(models.Model):
    """An instance group that an alert concerns."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=128, db_index=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["alert", "name"], name="alert_names_a_group_once")]

    def __str__(self) -> str:
        return f"{self.alert_id} concerns {self.name}"


class AlertTransition(models.Model):
    """A step in an alert's life; `by` is empty where the evaluation took it."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="transitions")
    at = models.DateTimeField()
    what = models.CharField(max_length=32)
    message = models.TextField(blank=True)
    by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.alert_id} {self.what} at {self.at}"


class AlertSilence(models.Model):
    """Keeps alerts from being told while it lasts; they are still shown. Empty patterns fit everything."""

    rule_name = models.CharField(max_length=128, blank=True)
    subject = models.CharField(max_length=256, blank=True)
    until = models.DateTimeField(db_index=True)
    reason = models.TextField()
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.rule_name or 'every rule'} {self.subject or 'every subject'} until {self.until}"


class AlertReceiver(models.Model):
    """A webhook. The secret goes out in a header and is never shown."""

    name = models.CharField(max_length=128, unique=True)
    url = models.CharField(max_length=2048)
    secret_header = models.CharField(max_length=64, default="Authorization")
    secret = models.CharField(max_length=1024, blank=True)
    least_severity = models.CharField(max_length=16, choices=SEVERITIES)
    sends_resolved = models.BooleanField(default=True)
    timeout_seconds = models.FloatField(default=5.0)
    is_enabled = models.BooleanField(default=True)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AlertDelivery(models.Model):
    """One message to one receiver, written with the turn that it tells: none is lost or made up.

    A queued one is due at `due_at`; who sends it moves that past its timeout first, so that a sender
    that dies leaves it to the next one.
    """

    receiver = models.ForeignKey(AlertReceiver, on_delete=models.CASCADE, related_name="deliveries")
    alert = models.ForeignKey(Alert, on_delete=models.SET_NULL, null=True, related_name="deliveries")
    event = models.CharField(max_length=16, choices=EVENTS)
    body = models.JSONField()
    state = models.CharField(max_length=16, choices=DELIVERY_STATES, default=DeliveryState.QUEUED.value)
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField()
    status = models.PositiveIntegerField(null=True)
    error = models.TextField(blank=True)
    latency_ms = models.FloatField(null=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "due_at"], name="delivery_due")]

    def __str__(self) -> str:
        return f"{self.event} to {self.receiver_id}: {self.state}"


class EvaluationLease(models.Model):
    """One row: who evaluates, until when. In the database: alerts go on while the index is down."""

    SINGLETON = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON)
    owner = models.CharField(max_length=64, blank=True)
    until = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="evaluation_lease_is_one_row")]

    def __str__(self) -> str:
        return f"{self.owner or 'nobody'} until {self.until}"
