"""Formats of traces by name, for whoever must not load what reads them. A test compares them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kvcm_platform.core.errors import invalid

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "mooncake": "Mooncake JSONL: timestamp, hash_ids, input_length, output_length",
        "bailian": "Qwen-Bailian JSONL: as Mooncake, with chat_id, turn and type",
        "weka": "WEKA agentic sessions, one a line",
        "lmcache": "LMCache lookup-hash logs",
        "publisher_log": "The event log of KVCM's publisher",
        "optimizer_schema": "KVCM's schema for the optimizer",
        "kv_events": "KV-cache events of vLLM or SGLang, msgpack or JSONL",
        "capture": "Live traffic captured by this platform",
        "parquet": "The columnar form that traces are downloaded in",
    }
)


def format_check(name: str, field: str = "format") -> None:
    """Raises INVALID_ARGUMENT for a format that there is not."""
    if name not in FORMATS:
        raise invalid(field, f"{name!r} is not one of {', '.join(FORMATS)}")
