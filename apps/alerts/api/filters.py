"""Filters of the list of alerts."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from apps.alerts.choices import ALERT_STATES, SEVERITIES
from apps.alerts.models import Alert
from apps.common.actor import Actor


class AlertFilter(filters.FilterSet):
    """Without `state` the firing ones."""

    state = filters.MultipleChoiceFilter(choices=[*ALERT_STATES, ("all", "all")], method="in_state")
    severity = filters.MultipleChoiceFilter(choices=SEVERITIES)
    rule = filters.CharFilter(field_name="rule_name")
    condition = filters.CharFilter()
    subject_kind = filters.CharFilter()
    subject = filters.CharFilter()
    silenced = filters.BooleanFilter(field_name="is_silenced")
    acknowledged = filters.BooleanFilter(field_name="acknowledged_at", lookup_expr="isnull", exclude=True)
    instance_group = filters.CharFilter(method="of_group")

    class Meta:
        model = Alert
        fields = ()

    def filter_queryset(self, queryset: QuerySet[Alert]) -> QuerySet[Alert]:
        alerts = super().filter_queryset(queryset)
        return alerts if self.form.cleaned_data["state"] else alerts.filter(state="firing")

    def in_state(self, alerts: QuerySet[Alert], _: str, states: list[str]) -> QuerySet[Alert]:
        return alerts if not states or "all" in states else alerts.filter(state__in=states)

    def of_group(self, alerts: QuerySet[Alert], _: str, name: str) -> QuerySet[Alert]:
        """Another's group is not asked about: an alert may concern it beside one's own."""
        actor: Actor = self.request.actor
        is_visible = actor.groups is None or name in actor.groups
        return alerts.filter(groups__name=name) if is_visible else alerts.none()
