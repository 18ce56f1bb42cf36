"""What forms of the optimizer offer."""

from __future__ import annotations

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.optimizer_reports.selectors.traces import traces_bytes
from kvcm_platform.optimizer.analysis.formats import FORMATS
from kvcm_platform.optimizer.analysis.known_policies import KNOWN_POLICIES
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec, spec_to_json


class PolicyOutput(serializers.Serializer):
    """A policy that can be analysed."""

    name = serializers.CharField()
    description = serializers.CharField()
    is_one_pass = serializers.BooleanField(help_text="all capacities from one pass over the trace")
    is_compatible = serializers.BooleanField(help_text="the reference simulator's own, bit for bit")
    has_holes = serializers.BooleanField(help_text="may hold blocks that no request can reach")
    parameters = serializers.DictField(child=serializers.FloatField(), help_text="with their defaults")


class FormatOutput(serializers.Serializer):
    """A format of traces."""

    name = serializers.CharField()
    description = serializers.CharField()


class OptimizerOptionsOutput(serializers.Serializer):
    """Policies, formats, the defaults of a run, and limits."""

    policies = PolicyOutput(many=True)
    formats = FormatOutput(many=True)
    defaults = serializers.DictField()
    upload_bytes = serializers.IntegerField(help_text="of one source file")
    traces_bytes = serializers.IntegerField(help_text="of all traces together, at most")
    used_bytes = serializers.IntegerField()


class OptionsView(APIView):
    """What the optimizer offers."""

    @extend_schema(responses=OptimizerOptionsOutput, operation_id="optimizer_options")
    def get(self, request: Request) -> Response:
        shown = {
            "policies": list(KNOWN_POLICIES.values()),
            "formats": [{"name": name, "description": text} for name, text in FORMATS.items()],
            "defaults": spec_to_json(AnalysisSpec()),
            "upload_bytes": settings.KVCM_TRACE_UPLOAD_BYTES,
            "traces_bytes": settings.KVCM_TRACES_BYTES,
            "used_bytes": traces_bytes(),
        }
        return Response(OptimizerOptionsOutput(shown).data)
