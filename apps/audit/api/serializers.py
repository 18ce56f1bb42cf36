"""The shape of audit entries."""

from rest_framework import serializers

from apps.audit.models import AuditEntry


class AuditEntrySerializer(serializers.ModelSerializer):
    class Meta:
        model = AuditEntry
        fields = (
            "id",
            "at",
            "actor",
            "token_name",
            "address",
            "request_id",
            "action",
            "object_kind",
            "object_name",
            "before",
            "after",
        )
        read_only_fields = fields
