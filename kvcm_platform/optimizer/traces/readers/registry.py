"""Which reader a format has."""

from __future__ import annotations

from kvcm_platform.core.traces import TraceFormat
from kvcm_platform.optimizer.traces.errors import TraceReadError
from kvcm_platform.optimizer.traces.formats import SourceFormat
from kvcm_platform.optimizer.traces.source_request import Reader

from .public_traces import public_reader

_READERS: dict[SourceFormat, Reader] = {
    SourceFormat.MOONCAKE: public_reader(TraceFormat.MOONCAKE),
    SourceFormat.BAILIAN: public_reader(TraceFormat.BAILIAN),
    SourceFormat.WEKA: public_reader(TraceFormat.WEKA),
}


def reader_of(source_format: SourceFormat) -> Reader:
    if source_format not in _READERS:
        raise TraceReadError("unknown_format", f"{source_format} cannot be read here", field="source_format")
    return _READERS[source_format]
