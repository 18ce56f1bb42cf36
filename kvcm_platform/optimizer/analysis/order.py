"""Messages between whoever starts a job's process and that process.

There: one line of JSON, an `Order`. Back: lines `{"progress": 0.4}`, at last `{"failed": {"code",
"message"}}` or `{"result_bytes": n, "peak_bytes": m}` followed by n bytes, JSON compressed with zstd.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson
import zstandard

NICENESS = 10
"""Engines' calls and the platform's other duties go first."""
MOST_RESULT_BYTES = 16 << 20
MOST_UNPACKED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """`do` is read, generate or analyse; `memory_bytes` 0 = no limit.

    `cache_folder` takes compiled code where the platform's own folder cannot be written.
    """

    do: str
    arguments: dict[str, Any]
    memory_bytes: int = 0
    cache_folder: str = ""

    def line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        return cls(**orjson.loads(line))


def result_header(content: bytes, peak_bytes: int) -> dict[str, object]:
    """What precedes a result. Raises ValueError for one that is too large."""
    if len(content) > MOST_RESULT_BYTES:
        raise ValueError(f"a result of {len(content)} bytes is more than {MOST_RESULT_BYTES}")
    return {"result_bytes": len(content), "peak_bytes": peak_bytes}


def packed(result: Any) -> bytes:
    """A result as it travels and is kept. Raises ValueError for one that is too large."""
    plain = orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY)
    if len(plain) > MOST_UNPACKED_BYTES:
        raise ValueError(f"a result of {len(plain)} bytes is more than {MOST_UNPACKED_BYTES}")
    return zstandard.compress(plain, 6)


def unpacked(content: bytes) -> dict[str, Any]:
    """The inverse of `packed`."""
    found: dict[str, Any] = orjson.loads(zstandard.decompress(content, max_output_size=MOST_UNPACKED_BYTES))
    return found


def out_of_memory(memory_bytes: int) -> str:
    """What is said of a job that was refused memory."""
    limit = f"{memory_bytes >> 20} MiB" if memory_bytes else "what there is"
    return f"it needs more memory than a job may have, {limit} (KVCM_OPTIMIZER_MEMORY_MB)"
