"""The audit log over REST."""

from __future__ import annotations

from django.db.models import QuerySet
from rest_framework import mixins, viewsets

from apps.accounts.api.permissions import OperatorsOnly
from apps.audit.api.serializers import AuditEntrySerializer
from apps.audit.models import AuditEntry
from apps.audit.selectors import audit_entry_list


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
