"""Block keys by the compiled loop and by the memo: the check values of WIRE.md 3.1, and each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core import native
from kvcm_platform.core.block_keys import chained_block_keys
from kvcm_platform.core.token_keys import KeyMemo, TokenKeys

ROOT = Path(__file__).parents[2]
LARGE = 64 << 20
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOKENS = st.lists(st.one_of(st.integers(0, 200_000), INT64), max_size=700)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> native.BlockKeys:
    """The library, built here as `make setup` builds it."""
    prefix = tmp_path_factory.mktemp("prefix")
    (prefix / "lib").mkdir()
    subprocess.run([ROOT / ".ci" / "native.sh", prefix], check=True, timeout=60)
    loaded = native.load(prefix / "lib" / native.library_path().name)
    assert loaded is not None, "a C compiler is needed: install the Debian packages gcc and libc6-dev"
    return loaded


@pytest.fixture(params=["compiled", "memo"])
def token_keys(request: pytest.FixtureRequest) -> TokenKeys:
    return TokenKeys(request.getfixturevalue("compiled") if request.param == "compiled" else None, LARGE)


@pytest.mark.parametrize(
    ("tokens", "block_size", "keys"),
    [
        (range(1, 9), 4, [455111481605203084, 6902853672176602142]),
        ([456], 1, [-7046029254386352675]),
        ([-1, 5], 1, [-7046029254386353132, -8366447769517733433]),
        ([1, 2, 3], 4, []),
        ([], 4, []),
    ],
)
def test_check_values(token_keys, tokens, block_size, keys):
    for _ in range(2):
        assert list(token_keys.keys(list(tokens), block_size)) == keys


@given(tokens=TOKENS, block_size=st.integers(1, 40))
def test_all_ways_agree(compiled, tokens, block_size):
    expected = chained_block_keys(tokens, block_size)
    memo = KeyMemo(LARGE)
    array = np.array(tokens, dtype=np.int64)
    assert compiled(array, block_size).tolist() == expected
    assert memo.keys(array, block_size).tolist() == expected
    assert memo.keys(array, block_size).tolist() == expected


@given(prompts=st.lists(st.tuples(TOKENS, st.integers(1, 3)), max_size=8), most=st.integers(0, 6000))
def test_a_memo_that_forgets_is_still_right(prompts, most):
    memo = KeyMemo(most)
    for tokens, block_size in prompts * 2:
        array = np.array(tokens, dtype=np.int64)
        assert memo.keys(array, block_size).tolist() == chained_block_keys(tokens, block_size)
        assert memo.counters.bytes <= most


def test_a_prompt_that_repeats_or_grows_hashes_nothing_twice():
    memo = KeyMemo(LARGE)
    prompt = np.arange(300 * 4, dtype=np.int64)
    memo.keys(prompt[: 256 * 4], 4)
    assert memo.counters.miss_chunks == 4
    memo.keys(prompt[: 256 * 4], 4)
    memo.keys(prompt[: 257 * 4], 4)
    assert memo.counters.miss_chunks == 5
    memo.keys(prompt[: 258 * 4 + 3], 4)
    assert memo.counters.miss_chunks == 6


def test_a_strided_array_and_a_bad_block_size(compiled):
    tokens = np.arange(64, dtype=np.int64)
    assert compiled(tokens[::2], 4).tolist() == chained_block_keys(tokens[::2].tolist(), 4)
    for hashing in (compiled, chained_block_keys):
        with pytest.raises(ValueError, match="block_size"):
            hashing(tokens, 0)


def test_a_library_that_computes_otherwise_is_not_used(tmp_path: Path):
    def build(change: Callable[[str], str]) -> Path:
        source = tmp_path / "changed.c"
        source.write_text(change(native.SOURCE.read_text()))
        library = tmp_path / f"{len(list(tmp_path.iterdir()))}.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        return library

    assert native.load(build(lambda text: text)) is not None
    assert native.load(build(lambda text: text.replace("(int64_t)state >> 32", "state >> 32"))) is None
    assert native.load(build(lambda text: text.replace("kvcm_block_keys", "other"))) is None
    assert native.load(tmp_path / "missing.so") is None
    (tmp_path / "text.so").write_text("no library")
    assert native.load(tmp_path / "text.so") is None
