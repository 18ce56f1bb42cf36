"""Writes of reclaim runs, and what reclaim and trims would do."""

from apps.capacity.services.evictions import SHOWN as DEPARTURES
from apps.capacity.services.evictions import departures
from apps.capacity.services.ingest import reports_ingest
from apps.capacity.services.previews import Foreseen, quota_preview, request_preview
from apps.capacity.services.requests import reclaim_cancel, reclaim_request
from apps.capacity.services.trims import STRATEGIES as TRIM_STRATEGIES
from apps.capacity.services.trims import TrimWish, trim, trim_preview

__all__ = [
    "DEPARTURES",
    "Foreseen",
    "TRIM_STRATEGIES",
    "TrimWish",
    "departures",
    "quota_preview",
    "reclaim_cancel",
    "reclaim_request",
    "reports_ingest",
    "request_preview",
    "trim",
    "trim_preview",
]
