"""The reference simulator's table of lookups, one file an instance (WIRE.md F 7.3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat.replay import Piece, ReferenceReplay, lookups_of
from kvcm_platform.optimizer.compat.settings import ReferenceSettings
from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.trace import Trace

COLUMNS = (
    "TimestampUs",
    "CachedBlocksCurrentInstance",
    "CachedBlocksPerInstance",
    "CachedBlocksAllInstance",
    "InternalReadBlocks",
    "ExternalReadBlocks",
    "TotalReadBlocks",
    "InternalHitBlocks",
    "InternalHitRate",
    "ExternalHitBlocks",
    "ExternalHitRate",
    "HitRate",
    "AccInternalHitRate",
    "AccExternalHitRate",
    "AccHitRate",
)

MOST_NAME_BYTES = 200
"""Of an instance: a file's name has 255."""


@dataclass(slots=True)
class InstanceSummary:
    """Of all lookups of an instance. `path` is None where it had none: then there is no file, as in the
    reference."""

    instance_id: str
    path: Path | None = None
    lookups: int = 0
    read_blocks: int = 0
    internal_hit_blocks: int = 0
    external_hit_blocks: int = 0

    @property
    def hit_rate(self) -> float:
        return (self.internal_hit_blocks + self.external_hit_blocks) / max(1, self.read_blocks)


def write_hit_rates(
    trace: Trace, settings: ReferenceSettings, folder: Path, *, on_progress: Progress | None = None
) -> list[InstanceSummary]:
    """Replays the trace and writes `<instance>_hit_rates.csv` into `folder`; the sums by instance.

    Numbers are printed as C++ streams print them by default (six digits). CachedBlocksPerInstance lists the
    instances in the order of the trace (the reference: in that of a hash table). Files appear when they are
    whole. Raises OSError, INVALID_ARGUMENT as `ReferenceReplay` does, and what `on_progress` raises.
    """
    for one in trace.header.instances:
        _check_name(one.instance_id)
    folder.mkdir(parents=True, exist_ok=True)
    summaries = [InstanceSummary(one.instance_id) for one in trace.header.instances]
    replay = ReferenceReplay(trace, settings, counts_sizes=True)
    unfinished: dict[int, Path] = {}
    try:
        with ExitStack() as stack:
            files: dict[int, TextIO] = {}
            for piece in replay.pieces(on_progress):
                for owner, line in _lines(trace, piece, summaries):
                    if owner not in files:
                        unfinished[owner] = folder / f".{summaries[owner].instance_id}.{os.getpid()}.part"
                        files[owner] = stack.enter_context(unfinished[owner].open("w", encoding="ascii"))
                        files[owner].write(",".join(COLUMNS) + "\n")
                    files[owner].write(line)
        for owner, part in unfinished.items():
            path = folder / f"{summaries[owner].instance_id}_hit_rates.csv"
            part.replace(path)
            summaries[owner].path = path
    finally:
        for part in unfinished.values():
            part.unlink(missing_ok=True)
    return summaries


def _check_name(instance_id: str) -> None:
    if (
        not instance_id
        or len(instance_id.encode()) > MOST_NAME_BYTES
        or any(sign in instance_id for sign in "/\\\0")
    ):
        raise invalid("trace", f"its instance {instance_id[:40]!r} cannot be part of a file's name")


def _lines(trace: Trace, piece: Piece, summaries: list[InstanceSummary]) -> Iterator[tuple[int, str]]:
    found = lookups_of(trace, piece)
    owners = np.asarray(trace.instance)[found.requests].tolist()
    times = (np.asarray(trace.at_us)[found.requests] + trace.header.start_us).tolist()
    sizes = piece.sizes[found.requests - piece.begin].tolist()
    rows = zip(
        owners,
        times,
        sizes,
        found.internal_read.tolist(),
        found.external_read.tolist(),
        found.internal_hit.tolist(),
        found.external_hit.tolist(),
        strict=True,
    )
    for owner, at_us, held, internal_read, external_read, internal_hit, external_hit in rows:
        read = internal_read + external_read
        sums = summaries[owner]
        sums.lookups += 1
        sums.read_blocks += read
        sums.internal_hit_blocks += internal_hit
        sums.external_hit_blocks += external_hit
        internal_rate, external_rate = _rate(internal_hit, read), _rate(external_hit, read)
        all_internal = _rate(sums.internal_hit_blocks, sums.read_blocks)
        all_external = _rate(sums.external_hit_blocks, sums.read_blocks)
        values = (
            at_us,
            held[owner],
            ";".join(map(str, held)),
            sum(held),
            internal_read,
            external_read,
            read,
            internal_hit,
            f"{internal_rate:g}",
            external_hit,
            f"{external_rate:g}",
            f"{internal_rate + external_rate:g}",
            f"{all_internal:g}",
            f"{all_external:g}",
            f"{all_internal + all_external:g}",
        )
        yield owner, ", ".join(map(str, values)) + "\n"


def _rate(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
