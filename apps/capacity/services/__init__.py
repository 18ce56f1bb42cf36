"""Writes of reclaim runs."""

from apps.capacity.services.ingest import reports_ingest
from apps.capacity.services.requests import reclaim_cancel, reclaim_request

__all__ = ["reclaim_cancel", "reclaim_request", "reports_ingest"]
