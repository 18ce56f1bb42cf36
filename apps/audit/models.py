"""What people and tokens did, and what happened by itself."""

from __future__ import annotations

from django.db import models

from apps.common.choices import choices_of
from apps.common.conditions import Severity


class AuditEntry(models.Model):
    """One act. Names are text, not references: an entry outlives the account and the object."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150, db_index=True)
    token_name = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    request_id = models.CharField(max_length=128, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    object_kind = models.CharField(max_length=32)
    object_name = models.CharField(max_length=256)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["object_kind", "object_name", "-id"], name="audit_object")]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object_kind} {self.object_name}"


class Event(models.Model):
    """Something that happened: a storage failed, a drain ended, an alert fired. Outlives its subject."""

    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=64, db_index=True)
    severity = models.CharField(max_length=16, choices=choices_of(Severity))
    subject_kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=256)
    message = models.TextField()
    is_of_all_groups = models.BooleanField(default=False)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subject_kind", "subject", "-id"], name="event_subject")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class EventGroup(models.Model):
    """An instance group that an event concerns. The name, not a reference: the group may go."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=128, db_index=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["event", "name"], name="event_names_a_group_once")]

    def __str__(self) -> str:
        return f"{self.event_id} concerns {self.name}"
