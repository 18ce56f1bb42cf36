"""The shapes of audit entries and events."""

from rest_framework import serializers

from apps.audit.models import AuditEntry, Event


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


class EventSerializer(serializers.ModelSerializer):
    """`groups` = the instance groups concerned that the asking account may see; null = all of them alike."""

    groups = serializers.SerializerMethodField()

    class Meta:
        model = Event
        fields = ("id", "at", "kind", "severity", "subject_kind", "subject", "message", "groups")
        read_only_fields = fields

    def get_groups(self, event: Event) -> list[str] | None:
        if event.is_of_all_groups:
            return None
        visible = self.context["request"].actor.groups
        names = [group.name for group in event.groups.all()]
        return names if visible is None else [name for name in names if name in visible]
