"""What a load run counted."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Report:
    """Counters of one engine, or of several added up. Not safe to share among threads."""

    requests: int = 0
    blocks: int = 0
    """Blocks asked for by prefix matches."""
    hit_blocks: int = 0
    written_blocks: int = 0
    """Blocks whose FinishWriteCache was answered OK."""
    write_refused: int = 0
    """StartWriteCache calls answered REACH_MAX_ENTITY_CAPACITY."""
    errors: int = 0
    """Calls that failed otherwise, each counted once however often it was repeated, and blocks
    that could not be written to their URIs."""
    bytes_written: int = 0
    bytes_read: int = 0
    bytes_wrong: int = 0
    """Bytes of hit blocks that are not those once written."""
    failed_reads: int = 0
    """Parts of hit blocks that could not be read: an engine would compute those blocks again."""
    seconds: float = 0.0
    latencies: dict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    """Seconds of each answered call, by RPC."""

    def add(self, other: Report) -> None:
        """Add another run's counts. `seconds` is left alone: runs side by side take no longer."""
        for member in fields(self):
            if member.name not in {"seconds", "latencies"}:
                setattr(self, member.name, getattr(self, member.name) + getattr(other, member.name))
        for rpc, values in other.latencies.items():
            self.latencies[rpc].extend(values)

    @property
    def hit_rate(self) -> float:
        return self.hit_blocks / self.blocks if self.blocks else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The form that `replay --json` prints."""
        return {
            "requests": self.requests,
            "blocks": self.blocks,
            "hit_blocks": self.hit_blocks,
            "hit_rate": self.hit_rate,
            "written_blocks": self.written_blocks,
            "write_refused": self.write_refused,
            "errors": self.errors,
            "bytes_written": self.bytes_written,
            "bytes_read": self.bytes_read,
            "bytes_wrong": self.bytes_wrong,
            "failed_reads": self.failed_reads,
            "seconds": round(self.seconds, 3),
            "rpc": {rpc: _latency(values) for rpc, values in sorted(self.latencies.items())},
        }

    def to_text(self) -> str:
        """The same for people, one figure a line."""
        data = self.to_dict()
        rpc = data.pop("rpc")
        lines = [
            f"{name:<15} {value:>15,.4f}" if isinstance(value, float) else f"{name:<15} {value:>15,}"
            for name, value in data.items()
        ]
        for name, row in rpc.items():
            shares = "   ".join(
                f"{name[:-3]} {row[name]:>9,.3f} ms" for name in ("p50_ms", "p99_ms", "max_ms")
            )
            lines.append(f"{name:<20} {row['count']:>10,} calls   {shares}")
        return "\n".join(lines)


def _latency(values: array[float]) -> dict[str, Any]:
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "p50_ms": round(_quantile(ordered, 0.50) * 1000, 3),
        "p99_ms": round(_quantile(ordered, 0.99) * 1000, 3),
        "max_ms": round(ordered[-1] * 1000, 3) if ordered else 0.0,
    }


def _quantile(ordered: list[float], share: float) -> float:
    """The nearest rank: the smallest value that at least `share` of all do not exceed."""
    if not ordered:
        return 0.0
    rank = -int(-share * len(ordered) // 1)
    return ordered[max(0, rank - 1)]
