"""The formats of traces that are read."""

from __future__ import annotations

from enum import StrEnum


class SourceFormat(StrEnum):
    MOONCAKE = "mooncake"
    BAILIAN = "bailian"
    WEKA = "weka"
    LMCACHE = "lmcache"
    PUBLISHER_LOG = "publisher_log"
    OPTIMIZER_SCHEMA = "optimizer_schema"
    KV_EVENTS = "kv_events"
    CAPTURE = "capture"
    PARQUET = "parquet"
