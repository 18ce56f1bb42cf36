"""Which reader a format has."""

from __future__ import annotations

from kvcm_platform.core.traces import TraceFormat
from kvcm_platform.optimizer.traces.errors import TraceReadError
from kvcm_platform.optimizer.traces.formats import SourceFormat
from kvcm_platform.optimizer.traces.source_request import Reader

from .event_log import read_capture, read_publisher_log
from .kv_events import read_kv_events
from .lmcache import read_lmcache
from .optimizer_schema import read_optimizer_schema
from .public_traces import public_reader

_READERS: dict[SourceFormat, Reader] = {
    SourceFormat.MOONCAKE: public_reader(TraceFormat.MOONCAKE),
    SourceFormat.BAILIAN: public_reader(TraceFormat.BAILIAN),
    SourceFormat.WEKA: public_reader(TraceFormat.WEKA),
    SourceFormat.LMCACHE: read_lmcache,
    SourceFormat.PUBLISHER_LOG: read_publisher_log,
    SourceFormat.OPTIMIZER_SCHEMA: read_optimizer_schema,
    SourceFormat.KV_EVENTS: read_kv_events,
    SourceFormat.CAPTURE: read_capture,
}


def reader_of(source_format: SourceFormat) -> Reader:
    """For all formats but Parquet, which is no lines. Raises TraceReadError unknown_format."""
    if source_format not in _READERS:
        raise TraceReadError("unknown_format", f"{source_format} cannot be read here", field="source_format")
    return _READERS[source_format]
