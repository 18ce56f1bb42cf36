"""A run of a configuration file of the reference simulator: trace in, tables out."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat.config import ReferenceConfig
from kvcm_platform.optimizer.compat.hit_rates import InstanceSummary, write_hit_rates
from kvcm_platform.optimizer.compat.settings import ReferenceGroup, ReferenceInstance, ReferenceSettings
from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import SourceFormat, ingest

_FORMATS = {"qwen_bailian": SourceFormat.BAILIAN}


def run_config(config: ReferenceConfig, *, on_progress: Progress | None = None) -> list[InstanceSummary]:
    """The tables are in the configuration's output folder; the sums by instance of the trace are the answer.

    Where both the trace and the configuration have one instance, they are the same one, whatever their names.
    Raises TraceReadError, OSError, INVALID_ARGUMENT, and what `on_progress` raises.
    """
    names = (*_FORMATS, *SourceFormat)
    if config.trace_type not in names:
        raise invalid("trace_type", f"{config.trace_type!r} is none of {', '.join(names)}")
    source_format = _FORMATS.get(config.trace_type) or SourceFormat(config.trace_type)
    config.output_path.mkdir(parents=True, exist_ok=True)

    def part(begin: float, width: float) -> Progress | None:
        if on_progress is None:
            return None
        tell = on_progress
        return lambda share: tell(begin + width * share)

    with tempfile.TemporaryDirectory(prefix=".trace-", dir=config.output_path) as folder:
        trace = ingest(
            config.trace_path,
            Path(folder) / "trace",
            source_format=source_format,
            as_turns=False if source_format is SourceFormat.PUBLISHER_LOG else None,
            on_progress=part(0, 0.5),
        )
        return write_hit_rates(
            trace, settings_for(trace, config.settings), config.output_path, on_progress=part(0.5, 0.5)
        )


def settings_for(trace: Trace, settings: ReferenceSettings) -> ReferenceSettings:
    """The settings, their only instance renamed to the trace's only one."""
    of_trace = trace.header.instances
    if len(of_trace) != 1 or len(settings.instances) != 1:
        return settings
    one: ReferenceInstance = replace(settings.instances[0], instance_id=of_trace[0].instance_id)
    groups: list[ReferenceGroup] = [
        replace(group, instances=(one,) if group.instances else ()) for group in settings.groups
    ]
    return replace(settings, groups=tuple(groups))
