"""The columns of a trace as compiled replays take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.optimizer.trace import Trace


class Requests(NamedTuple):
    """What a replay reads of a trace and, by instance, of its header; the order is that of its arguments."""

    at_us: NDArray[np.int64]
    event: NDArray[np.int8]
    instance: NDArray[np.int32]
    input_tokens: NDArray[np.int32]
    skip_n: NDArray[np.int32]
    read_n: NDArray[np.int32]
    offset: NDArray[np.int64]
    path: NDArray[np.int32]
    block_tokens: NDArray[np.int64]
    block_bytes: NDArray[np.int64]


def read_only(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """The same data as a contiguous array that cannot be written.

    So memory maps and arrays made in memory are one type to the compiler.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view(np.ndarray)
    view.flags.writeable = False
    return view


def requests_of(trace: Trace) -> Requests:
    """Without a copy of any column that is an array of its type already."""
    instances = trace.header.instances
    return Requests(
        at_us=read_only(trace.at_us, np.int64),
        event=read_only(trace.event, np.int8),
        instance=read_only(trace.instance, np.int32),
        input_tokens=read_only(trace.input_tokens, np.int32),
        skip_n=read_only(trace.skip_n, np.int32),
        read_n=read_only(trace.read_n, np.int32),
        offset=read_only(trace.offset, np.int64),
        path=read_only(trace.path, np.int32),
        block_tokens=read_only(np.array([instance.block_tokens for instance in instances]), np.int64),
        block_bytes=read_only(np.array([instance.block_bytes for instance in instances]), np.int64),
    )
