"""The layout of a pool segment: classes, runs, addresses and what a URI says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.pool_layout import (
    MAX_PAYLOAD_BYTES,
    MIN_SLOT_BYTES,
    SLAB_BYTES,
    PoolRange,
    SegmentLayout,
    SlotState,
    carving_word,
    owner_of,
    owner_word,
    pool_range,
    slot_class,
)
from kvcm_platform.core.uris import parse_uri

MIB = 1 << 20


@pytest.mark.parametrize(
    ("payload", "slot", "slabs", "slots"),
    [
        (1, 4096, 1, 4096),
        (4096, 4096, 1, 4096),
        (4097, 5120, 1, 3276),
        (8192, 8192, 1, 2048),
        (2 * MIB, 2 * MIB, 1, 8),
        (2 * MIB + 1, 2 * MIB + MIB // 2, 1, 6),
        (6 * MIB, 6 * MIB, 2, 5),
        (10 * MIB, 10 * MIB, 2, 3),
        (16 * MIB, 16 * MIB, 1, 1),
        (17 * MIB, 20 * MIB, 4, 3),
        (MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES, 64, 1),
    ],
)
def test_known_classes(payload: int, slot: int, slabs: int, slots: int) -> None:
    kind = slot_class(payload)
    assert (kind.slot_bytes, kind.slabs, kind.slots) == (slot, slabs, slots)


@pytest.mark.parametrize("payload", [0, -1, MAX_PAYLOAD_BYTES + 1])
def test_sizes_without_a_class(payload: int) -> None:
    with pytest.raises(ValueError, match="between 1 and"):
        slot_class(payload)


@given(st.integers(MIN_SLOT_BYTES + 1, MAX_PAYLOAD_BYTES))
def test_at_most_a_quarter_is_wasted(payload: int) -> None:
    kind = slot_class(payload)
    assert payload <= kind.slot_bytes < payload * 1.25
    run_bytes = kind.slabs * SLAB_BYTES
    assert kind.slots * kind.slot_bytes <= run_bytes
    assert 1 <= kind.slabs <= 64
    assert kind.slots * payload >= run_bytes * 0.75
    assert slot_class(kind.slot_bytes) == kind
    assert kind.slot_bytes % 1024 == 0


@given(st.integers(1, MAX_PAYLOAD_BYTES), st.integers(0, 200), st.data())
def test_a_slot_tells_its_run(payload: int, first: int, data: st.DataObject) -> None:
    kind = slot_class(payload)
    index = data.draw(st.integers(0, kind.slots - 1))
    offset = first * SLAB_BYTES + index * kind.slot_bytes
    assert kind.first_slab(offset) == first
    assert kind.first_slab(offset + 512) is None


def test_a_slot_that_would_leave_its_run_is_none() -> None:
    kind = slot_class(4097)
    assert kind.first_slab(kind.slots * kind.slot_bytes) is None


@given(st.integers(4, 30))
def test_slots_of_one_run_have_headers_of_their_own(power: int) -> None:
    for payload in (1 << power, (1 << power) + 1):
        if payload <= MAX_PAYLOAD_BYTES:
            kind = slot_class(payload)
            places = {SegmentLayout.header_index(i * kind.slot_bytes) for i in range(kind.slots)}
            assert len(places) == kind.slots


@given(st.integers(1, 100_000))
def test_parts_of_the_file_do_not_overlap(slabs: int) -> None:
    layout = SegmentLayout(slabs)
    assert layout.slab_table_at + slabs * 32 <= layout.header_table_at
    last = layout.header_index(layout.size_bytes - MIN_SLOT_BYTES)
    assert layout.header_table_at + (last + 1) * 32 <= layout.data_at
    assert layout.data_at % (2 * MIB) == 0
    assert layout.file_bytes == layout.data_at + slabs * SLAB_BYTES
    assert layout.file_bytes < layout.size_bytes * 1.01 + 4 * MIB


def test_words() -> None:
    word = owner_word((1 << 53) - 1, SlotState.RELEASED)
    assert word < 1 << 63
    assert owner_of(word) == ((1 << 53) - 1, SlotState.RELEASED)
    assert owner_of(0) == (0, SlotState.EMPTY)
    assert 0 < carving_word(slot_class(MAX_PAYLOAD_BYTES), 2**32 - 1) < 1 << 63


def test_what_a_uri_says() -> None:
    uri = parse_uri("pace://pool/16777216?media_type=2&node_id=a&range_id=17&size=100")
    assert pool_range(uri) == PoolRange("a", SLAB_BYTES, 100, 17)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("file://pool/0?node_id=a&range_id=17&size=100", "scheme"),
        ("pace://pool/0?range_id=17&size=100", "node_id"),
        ("pace://pool/x?node_id=a&range_id=17&size=100", "numbers"),
        ("pace://pool/-4096?node_id=a&range_id=17&size=100", "out of range"),
        ("pace://pool/0?node_id=a&range_id=0&size=100", "out of range"),
        ("pace://pool/0?node_id=a&range_id=9007199254740992&size=1", "out of range"),
        ("pace://pool/0?node_id=a&range_id=17", "between"),
    ],
)
def test_what_is_no_uri_of_a_range(uri: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        pool_range(parse_uri(uri))
