"""Shapes of optimizer runs. Ranges are checked by the optimizer itself."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.common.api.strict import StrictSerializer
from apps.optimizer_reports.choices import JOB_STATES, RUN_ORIGINS, RUN_STATES
from apps.optimizer_reports.services import RunWish
from kvcm_platform.optimizer.analysis.plan import JobPlan

_OF_RUN = ("trace", "name", "note", "instance_group")


class SpecFields(StrictSerializer):
    """What is to be computed. What is left out has the optimizer's default."""

    policies = serializers.ListField(child=serializers.CharField(), required=False)
    capacities = serializers.JSONField(
        required=False, help_text='a list of numbers and texts ("10%", "64GiB"), or "auto"'
    )
    unit = serializers.CharField(required=False, help_text="blocks or bytes")
    touch = serializers.CharField(required=False, help_text="deep or root")
    events = serializers.CharField(required=False, help_text="turn or read_write")
    delay_seconds = serializers.FloatField(required=False)
    instances = serializers.ListField(child=serializers.CharField(), required=False)
    types = serializers.ListField(child=serializers.CharField(allow_blank=True), required=False)
    begin_seconds = serializers.FloatField(required=False, allow_null=True)
    end_seconds = serializers.FloatField(required=False, allow_null=True)
    windows = serializers.IntegerField(required=False)
    ttl_seconds = serializers.ListField(child=serializers.FloatField(), required=False)
    tiers = serializers.JSONField(required=False, help_text="a list of pairs of capacities")
    has_bound = serializers.BooleanField(required=False)
    hot_prefixes = serializers.IntegerField(required=False)
    is_sampled = serializers.BooleanField(required=False)
    seed = serializers.IntegerField(required=False)
    parameters = serializers.DictField(required=False, allow_null=True, help_text="of policies, by name")
    cost = serializers.DictField(required=False, allow_null=True, help_text="a cost model")


class RunInput(SpecFields):
    """One run of a trace. `instance_group`: whose quota the result is held against."""

    trace = serializers.IntegerField()
    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=128)
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=4000)
    instance_group = serializers.CharField(required=False, allow_blank=True, default="")


def run_wish(data: dict[str, Any]) -> RunWish:
    """The wish of a valid `RunInput`."""
    return RunWish(
        trace_id=data["trace"],
        name=data["name"],
        note=data["note"],
        group=data["instance_group"],
        spec={name: value for name, value in data.items() if name not in _OF_RUN},
    )


class JobPlanOutput(serializers.Serializer):
    """One job that a run would have."""

    title = serializers.CharField()
    policy = serializers.CharField()
    work = serializers.IntegerField(help_text="block accesses, all capacities together")
    estimate_seconds = serializers.FloatField()


class RunEstimateOutput(serializers.Serializer):
    """What a run would take: seconds of computing, of which several jobs go on at a time."""

    estimate_seconds = serializers.FloatField()
    waiting_seconds = serializers.FloatField(help_text="of computing that was asked for before")
    job_count = serializers.IntegerField()
    jobs = JobPlanOutput(many=True, help_text="the first 100")
    instance_group = serializers.CharField()
    spec = serializers.DictField(help_text="as it would be carried out, with the defaults")


def plan_shown(job: JobPlan) -> dict[str, Any]:
    return {name: getattr(job, name) for name in ("title", "policy", "work", "estimate_seconds")}


class JobOutput(serializers.Serializer):
    """One job of a run."""

    number = serializers.IntegerField()
    policy = serializers.CharField()
    title = serializers.CharField()
    state = serializers.ChoiceField(choices=JOB_STATES)
    progress = serializers.FloatField()
    estimate_seconds = serializers.FloatField()
    busy_seconds = serializers.FloatField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField()
    tries = serializers.IntegerField()
    peak_bytes = serializers.IntegerField()


class KneeOutput(serializers.Serializer):
    capacity = serializers.IntegerField()
    hit_rate = serializers.FloatField()


class PolicySummaryOutput(serializers.Serializer):
    """The headline figures of one policy."""

    policy = serializers.CharField()
    unit = serializers.CharField()
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()), help_text="[capacity, hit rate]"
    )
    knee = KneeOutput(allow_null=True)
    hit_rate_at_quota = serializers.FloatField(allow_null=True)
    token_hit_rate_at_quota = serializers.FloatField(allow_null=True)
    best = serializers.DictField(allow_null=True, help_text="the capacity that is worth most")


class RunSummaryOutput(serializers.Serializer):
    """What a run that is over has to say in a few figures."""

    unlimited_hit_rate = serializers.FloatField(allow_null=True)
    quota_bytes = serializers.IntegerField()
    best_policy_at_quota = serializers.CharField(allow_null=True)
    policies = PolicySummaryOutput(many=True)


class RunOutput(serializers.Serializer):
    """One optimizer run. `trace` null = it was deleted. `groups` null = of all instance groups alike."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    note = serializers.CharField()
    origin = serializers.ChoiceField(choices=RUN_ORIGINS)
    trace = serializers.IntegerField(allow_null=True)
    trace_name = serializers.CharField()
    instance_group = serializers.CharField()
    groups = serializers.ListField(child=serializers.CharField(), allow_null=True)
    policies = serializers.ListField(child=serializers.CharField())
    unit = serializers.CharField()
    state = serializers.ChoiceField(choices=RUN_STATES)
    cancel_requested = serializers.BooleanField()
    progress = serializers.FloatField()
    estimate_seconds = serializers.FloatField()
    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    duration_seconds = serializers.FloatField(allow_null=True)
    reason = serializers.CharField()
    summary = RunSummaryOutput(allow_null=True)


class RunDetail(RunOutput):
    """One run with its jobs, and what was asked for."""

    spec = serializers.DictField()
    trace_facts = serializers.DictField()
    jobs = JobOutput(many=True)


class CurveOutput(serializers.Serializer):
    """One policy's curve; arrays by capacity, thinned to as many points as were asked for."""

    policy = serializers.CharField()
    label = serializers.CharField()
    is_bound = serializers.BooleanField()
    definition_text = serializers.CharField()
    curve = serializers.DictField()
    hit_rate = serializers.ListField(child=serializers.FloatField())
    token_hit_rate = serializers.ListField(child=serializers.FloatField())
    unlimited_hit_rate = serializers.FloatField()
    compulsory_misses = serializers.IntegerField()
    capacity_bytes = serializers.ListField(child=serializers.FloatField(), allow_null=True)
    marginal_hit_rate_per_gib = serializers.ListField(child=serializers.FloatField(), allow_null=True)
    knee = KneeOutput(allow_null=True)


class QuotaPlacesOutput(serializers.Serializer):
    """The quota that a run is held against."""

    bytes = serializers.IntegerField()
    blocks = serializers.IntegerField(allow_null=True)


class RunResultOutput(serializers.Serializer):
    """What a run found (so far). `gaps` are to the clairvoyant bound, by policy."""

    id = serializers.IntegerField()
    state = serializers.ChoiceField(choices=RUN_STATES)
    curves = CurveOutput(many=True)
    quota = QuotaPlacesOutput(allow_null=True)
    gaps = serializers.DictField()
    details = serializers.DictField(allow_null=True)
    prefixes = serializers.DictField(allow_null=True)
    worth = serializers.DictField(allow_null=True)
    notes = serializers.ListField(child=serializers.CharField())


class ComparedRunOutput(serializers.Serializer):
    """One of the runs that are compared."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    trace_name = serializers.CharField()
    state = serializers.ChoiceField(choices=RUN_STATES)
    asked_at = serializers.DateTimeField()
    curves = CurveOutput(many=True)
    quota = QuotaPlacesOutput(allow_null=True)
    notes = serializers.ListField(child=serializers.CharField())


class WorthInput(StrictSerializer):
    """A cost model to value a run by."""

    cost = serializers.DictField()


class WorthOutput(serializers.Serializer):
    """Money by capacity and policy, and which instances and types are worth a cache of their own."""

    curves = serializers.DictField()
    by_instance = serializers.ListField(child=serializers.DictField())
    by_type = serializers.ListField(child=serializers.DictField())
