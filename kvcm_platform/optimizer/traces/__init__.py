"""Traces: readers of their formats, and the columnar store that computations run on.

Parquet is in `parquet.py` and not loaded with the rest: jobs of analyses need none.
"""

from .anonymize import Anonymized, anonymize
from .detection import detect
from .errors import TraceReadError
from .formats import SourceFormat
from .ingest import ingest
from .json_trace import OutputFormat
from .selection import part_of, select
from .store import open_trace
from .summary import PartSummary, TraceSummary, summary, summary_to_json

__all__ = [
    "Anonymized",
    "OutputFormat",
    "PartSummary",
    "SourceFormat",
    "TraceReadError",
    "TraceSummary",
    "anonymize",
    "detect",
    "ingest",
    "open_trace",
    "part_of",
    "select",
    "summary",
    "summary_to_json",
]
