"""What several requests on storages have in common."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

FORCE = OpenApiParameter("force", bool, description="go ahead where blocks or groups are affected")


def is_forced(request: Request) -> bool:
    return request.query_params.get("force", "").lower() in {"1", "true"}
