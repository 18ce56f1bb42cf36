"""Filters of the feed of events."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from apps.audit.models import Event
from apps.common.actor import Actor
from apps.common.api.moments import MomentFilter
from apps.common.choices import choices_of
from apps.common.conditions import Severity


class EventFilter(filters.FilterSet):
    kind = filters.CharFilter()
    severity = filters.MultipleChoiceFilter(choices=choices_of(Severity))
    subject_kind = filters.CharFilter()
    subject = filters.CharFilter()
    instance_group = filters.CharFilter(method="of_group")
    since = MomentFilter(field_name="at", lookup_expr="gte")
    until = MomentFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = Event
        fields = ()

    def of_group(self, events: QuerySet[Event], _: str, name: str) -> QuerySet[Event]:
        """Another's group is not asked about: an event may concern it beside one's own."""
        actor: Actor = self.request.actor
        is_visible = actor.groups is None or name in actor.groups
        return events.filter(groups__name=name) if is_visible else events.none()
