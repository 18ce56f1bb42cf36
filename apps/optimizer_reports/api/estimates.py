"""Online estimates over REST: real hit rates beside those of less and more capacity."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.choices import choices_of
from apps.common.redis_client import index_client
from apps.optimizer_reports.presentation_estimates import estimate_shown
from apps.optimizer_reports.selectors.estimates import EstimateKind, estimate_list

ESTIMATE_KINDS = choices_of(EstimateKind)


class EstimateQuery(serializers.Serializer):
    """Which rows: of groups, of instances, of one group with its instances, of one instance."""

    kind = serializers.ChoiceField(choices=ESTIMATE_KINDS, required=False)
    instance_group = serializers.CharField(required=False)
    instance_id = serializers.CharField(required=False)


class EstimatePointOutput(serializers.Serializer):
    """At `factor` times the present capacity. `unique_blocks`: what such a cache of the group holds now."""

    factor = serializers.FloatField()
    capacity_bytes = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    unique_blocks = serializers.IntegerField()


class EstimateOutput(serializers.Serializer):
    """What prefix matches of the last `window_seconds` found, and would have found with other capacities.

    `capacity_bytes` is the group's, which its instances share: the bytes at which it gives blocks back. Rates
    are null where nothing was asked. `since` is when the estimate began with nothing; until it has
    seen as much as the largest capacity holds (`has_seen_all`), what was there before counts as found from
    the present capacity on. `sampled_ratio` of all blocks are looked at, and more of those near the
    beginning of a prompt; `lost_calls` are those that nobody had room for.
    """

    kind = serializers.ChoiceField(choices=ESTIMATE_KINDS)
    instance_group = serializers.CharField()
    instance_id = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()
    since = serializers.DateTimeField()
    window_seconds = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    asked_blocks = serializers.IntegerField()
    real_hit_blocks = serializers.IntegerField()
    real_hit_rate = serializers.FloatField(allow_null=True)
    points = EstimatePointOutput(many=True)
    sampled_ratio = serializers.FloatField()
    sampled_blocks = serializers.IntegerField()
    has_seen_all = serializers.BooleanField()
    lost_calls = serializers.IntegerField()


class EstimateViewSet(viewsets.GenericViewSet):
    """Hit rates at 0.5, 1, 2 and 4 times the present capacity, from sampled live traffic."""

    serializer_class = EstimateOutput
    filter_backends = ()

    @extend_schema(parameters=[EstimateQuery], responses=EstimateOutput(many=True))
    def list(self, request: Request) -> Response:
        query = EstimateQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        found = estimate_list(client=index_client(), acting=request.actor, **query.validated_data)
        shown = [estimate_shown(row) for row in self.paginate_queryset(found)]
        return self.get_paginated_response(EstimateOutput(shown, many=True).data)
