"""What people and tokens did."""

from __future__ import annotations

from django.db import models


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
