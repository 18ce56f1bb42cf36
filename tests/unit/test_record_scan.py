"""Looking at a chunk of records in one go says what looking at each says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcm_platform.core.placement import Serving
from kvcm_platform.index import codec, records
from tests.support.data_plane import instance

MODEL = instance()
SERVED = Serving(frozenset({1, 2}), {1: 1, 2: 1}, is_readable=True)


def entry(status: int, target: int, storage: int, run: bytes, wire: bytes) -> bytes:
    """One location (index/codec.py)."""
    head = bytes([status, target]) + b"\x04" + storage.to_bytes(2)
    return head + run + bytes(18) + len(wire).to_bytes(3) + wire


RUNS = st.sampled_from([b"aaaaaaaa\0\0", b"aaaaaaaa\0\1", b"bbbbbbbb\0\0"])
WIRES = st.sampled_from([b"", b"w", b"x", b"wire"])
HITS = st.builds(entry, st.just(3), st.sampled_from([0, 1]), st.sampled_from([1, 2]), RUNS, WIRES)
ODD = st.one_of(
    st.none(),
    st.builds(entry, st.sampled_from([2, 4]), st.just(0), st.just(1), RUNS, WIRES),
    st.builds(entry, st.just(3), st.just(0x80), st.just(1), RUNS, WIRES),
    st.builds(entry, st.just(3), st.just(0), st.just(3), RUNS, WIRES),
    st.tuples(HITS, HITS).map(b"".join),
)


@st.composite
def chunks(draw: st.DrawFn) -> list[bytes | None]:
    """Hits, among them at most one record that is otherwise."""
    found: list[bytes | None] = list(draw(st.lists(HITS, max_size=20)))
    if draw(st.booleans()):
        found.insert(draw(st.integers(0, len(found))), draw(ODD))
    return found


@settings(max_examples=500)
@given(chunks())
def test_scan_is_the_sum_of_its_records(found):
    plain = records.scan(found, SERVED)
    is_plain = all(record is not None and records.is_single(record) for record in found)
    wires = [records.served(record, MODEL, SERVED) if is_plain else None for record in found]
    if not is_plain or None in wires:
        assert plain is None
        return
    assert plain is not None
    assert plain.wire == b"".join(wires)
    assert plain.runs == records.runs(found, 0)
    assert plain.storages == {number for record in found for number in codec.storage_numbers(record)}
