"""Small traces from lists of keys, and their radix tree by plain dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvcm_platform.optimizer.trace import NO_PARENT, Event, Trace, TraceHeader, TraceInstance


def trace_of(
    chains: Sequence[Sequence[int]],
    *,
    sessions: Sequence[int] | None = None,
    at_us: Sequence[int] | None = None,
    instances: Sequence[int] | None = None,
    block_tokens: int = 4,
    block_bytes: int = 0,
) -> Trace:
    """Every chain of keys is a TURN that is looked up whole; a key with those before it names a block."""
    ids: dict[tuple[int, tuple[int, ...]], int] = {}
    parent, depth, key, path_instance, path, offset = [], [], [], [], [], [0]
    of = instances or [0] * len(chains)
    for instance, chain in zip(of, chains, strict=True):
        before = NO_PARENT
        for length in range(1, len(chain) + 1):
            name = (instance, tuple(chain[:length]))
            if name not in ids:
                ids[name] = len(ids)
                parent.append(before)
                depth.append(length - 1)
                key.append(chain[length - 1])
                path_instance.append(instance)
            before = ids[name]
            path.append(before)
        offset.append(len(path))
    count = len(chains)
    lengths = np.diff(offset).astype(np.int32)
    return Trace(
        header=TraceHeader(
            "by hand",
            "mooncake",
            tuple(TraceInstance(f"i{n}", block_tokens, block_bytes) for n in range(max(of, default=0) + 1)),
        ),
        at_us=np.asarray(at_us if at_us is not None else range(count), dtype=np.int64),
        event=np.full(count, Event.TURN, dtype=np.int8),
        instance=np.asarray(of, dtype=np.int32),
        type=np.zeros(count, dtype=np.int32),
        session=np.asarray(sessions if sessions is not None else [-1] * count, dtype=np.int32),
        input_tokens=lengths * block_tokens,
        output_tokens=np.zeros(count, dtype=np.int32),
        skip_n=np.zeros(count, dtype=np.int32),
        read_n=lengths,
        offset=np.asarray(offset, dtype=np.int64),
        path=np.asarray(path, dtype=np.int32),
        parent=np.asarray(parent, dtype=np.int32),
        depth=np.asarray(depth, dtype=np.int32),
        key=np.asarray(key, dtype=np.int64),
        path_instance=np.asarray(path_instance, dtype=np.int32),
    )
