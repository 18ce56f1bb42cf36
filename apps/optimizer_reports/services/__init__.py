"""Changes of traces and runs, and the work behind them."""

from .captures import capture_file, capture_row_begin, capture_row_end, capture_row_note
from .live_captures import capture_begin, capture_end
from .rounds import optimizer_work
from .runs import (
    RunEstimate,
    RunWish,
    run_cancel,
    run_create,
    run_estimate,
    run_remove,
    run_retry,
    run_update,
)
from .traces import (
    GenerateWish,
    ReceivedFile,
    TraceWish,
    trace_add,
    trace_generate,
    trace_read_again,
    trace_remove,
    trace_update,
)
from .upkeep import optimizer_keep, optimizer_resume

__all__ = [
    "GenerateWish",
    "ReceivedFile",
    "RunEstimate",
    "RunWish",
    "TraceWish",
    "capture_begin",
    "capture_end",
    "capture_file",
    "capture_row_begin",
    "capture_row_end",
    "capture_row_note",
    "optimizer_keep",
    "optimizer_resume",
    "optimizer_work",
    "run_cancel",
    "run_create",
    "run_estimate",
    "run_remove",
    "run_retry",
    "run_update",
    "trace_add",
    "trace_generate",
    "trace_read_again",
    "trace_remove",
    "trace_update",
]
