"""The committed modules are what the generator makes, and serialise as the protocol says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvcm_platform.pb import admin_service_pb2, meta_service_pb2

ROOT = Path(__file__).resolve().parents[2]


def test_committed_modules_match_the_protocol_files() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "proto" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


def test_bytes_of_a_request_are_the_known_ones() -> None:
    """Written out by hand from the encoding rules: tag = number << 3 | wire type."""
    request = meta_service_pb2.GetCacheLocationRequest(
        trace_id="t", instance_id="i", query_type=2, block_keys=[1, -1], sw_size=-1
    )
    request.block_mask.offset = 0
    assert request.SerializeToString(deterministic=True) == (
        b"\x0a\x01t\x12\x01i\x18\x02"
        b"\x22\x0b\x01" + b"\xff" * 9 + b"\x01"
        b"\x32\x02\x08\x00"
        b"\x38" + b"\xff" * 9 + b"\x01"
    )


def test_the_vcns_member_differs_between_the_packages() -> None:
    meta = meta_service_pb2.StorageConfig.DESCRIPTOR.fields_by_name["vcnsthreefs"]
    admin = admin_service_pb2.StorageConfig.DESCRIPTOR.fields_by_name["vcnsthreefs"]
    assert meta.message_type.name == "ThreeFSStorageSpec"
    assert admin.message_type.name == "VcnsThreeFSStorageSpec"


def test_later_and_unknown_members_survive_an_older_reader() -> None:
    newer = meta_service_pb2.StartWriteCacheRequest(instance_id="i", min_replica_count=2)
    raw = newer.SerializeToString() + b"\x7a\x01x"
    assert meta_service_pb2.StartWriteCacheRequest.FromString(raw).SerializeToString() == raw
