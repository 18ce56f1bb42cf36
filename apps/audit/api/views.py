"""The audit log and the feed of events over REST."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework import mixins, viewsets

from apps.accounts.api.permissions import OperatorsOnly
from apps.audit.api.filters import EventFilter
from apps.audit.api.serializers import AuditEntrySerializer, EventSerializer
from apps.audit.models import AuditEntry, Event
from apps.audit.selectors import audit_entry_list, event_list


class AuditEntryViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """What people and tokens did, newest first; operators and admins."""

    permission_classes = (OperatorsOnly,)
    serializer_class = AuditEntrySerializer
    queryset = AuditEntry.objects.none()
    lookup_value_regex = r"\d+"
    filterset_fields = ("actor", "action", "object_kind", "object_name", "request_id")
    search_fields = ("actor", "action", "object_name")
    ordering_fields = ("id", "at", "actor", "action", "object_name")

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return audit_entry_list(acting=self.request.actor)


class EventViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """What happened, newest first: turns of health, alerts, drains. Kept for 30 days."""

    serializer_class = EventSerializer
    queryset = Event.objects.none()
    filterset_class = EventFilter
    search_fields = ("kind", "subject", "message")
    ordering_fields = ("id", "at")

    def get_queryset(self) -> QuerySet[Event]:
        return event_list(acting=self.request.actor)
