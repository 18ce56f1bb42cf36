from __future__ import annotations

import pytest

from kvcm_platform.core.sizes import sized


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (10_000, "9.77 KiB"),
        (64 << 20, "64 MiB"),
        (1_047_552, "1023 KiB"),
        (10**15, "909 TiB"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_sizes_are_told_in_the_largest_unit_that_they_fill(count, text):
    assert sized(count) == text
