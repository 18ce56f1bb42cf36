"""gRPC's small formats: timeouts, texts in trailers, gzip within a limit."""

from __future__ import annotations

import gzip
import zlib

import pytest

from kvcm_platform.metadata_service.transports.fast.messages import (
    Refused,
    Status,
    inflated,
    percent_encoded,
    timeout_seconds,
)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"250m", 0.25),
        (b"7u", 7e-6),
        (b"9n", 9e-9),
        (b"99999999S", 99_999_999),
        (b"0m", 0),
        (b"100000000S", None),
        (b"S", None),
        (b"1s", None),
        (b"-1S", None),
        (b"1.5S", None),
        (b" 1S", None),
        (b"", None),
    ],
)
def test_timeouts(value, seconds):
    assert timeout_seconds(value) == (None if seconds is None else pytest.approx(seconds))


def test_texts_are_bounded():
    assert percent_encoded("a b~") == b"a b~"
    assert len(percent_encoded("é" * 10_000)) == 3 * 4096


def test_gzip_is_read_within_the_limit():
    assert inflated(gzip.compress(bytes(1000)), 1000) == bytes(1000)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (gzip.compress(bytes(1001)), Status.RESOURCE_EXHAUSTED),
        (gzip.compress(bytes(100 << 20)), Status.RESOURCE_EXHAUSTED),
        (gzip.compress(b"abc")[:-1], Status.INTERNAL),
        (gzip.compress(b"abc") + b"x", Status.INTERNAL),
        (zlib.compress(b"abc"), Status.INTERNAL),
        (b"", Status.INTERNAL),
    ],
    ids=["over", "bomb", "short", "long", "zlib", "empty"],
)
def test_bad_gzip_is_refused(data, status):
    with pytest.raises(Refused) as caught:
        inflated(data, 1000)
    assert caught.value.status == status
