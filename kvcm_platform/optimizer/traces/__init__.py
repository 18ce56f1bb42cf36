"""Traces: readers of their formats, and the columnar store that computations run on."""

from .detection import detect
from .errors import TraceReadError
from .formats import SourceFormat
from .ingest import ingest
from .store import open_trace

__all__ = ["SourceFormat", "TraceReadError", "detect", "ingest", "open_trace"]
