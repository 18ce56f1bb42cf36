"""Block keys of prompts that come as token ids: by the compiled loop, else by a memo over the Python one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from .block_keys import chained_block_keys
from .native import BlockKeys, Keys

CHUNK_BLOCKS = 64
ENTRY_OVERHEAD = 300
"""Bytes of bookkeeping an entry of the memo."""
SLOW_TOKENS = 16_384
"""From here on the Python loop leaves the event loop: about 3 ms."""
SLOW_TOKENS_COMPILED = 1 << 20
"""The same for the compiled one: about 2 ms."""


@dataclass(slots=True)
class MemoCounters:
    hit_chunks: int = 0
    miss_chunks: int = 0
    bytes: int = 0


class KeyMemo:
    """(state, tokens of up to 64 blocks) to their keys, the least recently used going first.

    A prompt is cut into chunks of 64 blocks and its rest into powers of two, so that one that repeats costs
    no hashing and one that grows the new blocks alone. May be used from several threads.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._chunks: OrderedDict[tuple[int, int, bytes], Keys] = OrderedDict()
        self._lock = threading.Lock()
        self.counters = MemoCounters()

    def keys(self, tokens: Keys, block_size: int) -> Keys:
        """One key for each full block of the tokens."""
        parts: list[Keys] = []
        state, at = 0, 0
        for blocks in _cuts(len(tokens) // block_size):
            part = self._chunk(state, tokens[at : at + blocks * block_size], block_size)
            parts.append(part)
            state = int(part[-1])
            at += blocks * block_size
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _chunk(self, state: int, tokens: Keys, block_size: int) -> Keys:
        name = (state, block_size, tokens.tobytes())
        with self._lock:
            known = self._chunks.get(name)
            if known is not None:
                self._chunks.move_to_end(name)
                self.counters.hit_chunks += 1
                return known
        made = np.array(chained_block_keys(tokens.tolist(), block_size, state), dtype=np.int64)
        with self._lock:
            self.counters.miss_chunks += 1
            if name not in self._chunks:
                self._chunks[name] = made
                self.counters.bytes += _size(name, made)
            while self.counters.bytes > self._max_bytes:
                self.counters.bytes -= _size(*self._chunks.popitem(last=False))
        return made


def _cuts(blocks: int) -> Iterator[int]:
    """Chunks of 64 blocks, then one for each set bit of what is left, the largest first."""
    for _ in range(blocks // CHUNK_BLOCKS):
        yield CHUNK_BLOCKS
    size = CHUNK_BLOCKS >> 1
    while size:
        if blocks & size:
            yield size
        size >>= 1


def _size(name: tuple[int, int, bytes], keys: Keys) -> int:
    return len(name[2]) + keys.nbytes + ENTRY_OVERHEAD


class TokenKeys:
    """`compiled` is `native.load_built()`; it is faster than a memo could be, so it needs none."""

    def __init__(self, compiled: BlockKeys | None, memo_bytes: int) -> None:
        self._hash = compiled or KeyMemo(memo_bytes).keys
        self._slow_from = SLOW_TOKENS_COMPILED if compiled else SLOW_TOKENS

    def is_slow(self, count: int) -> bool:
        """Whether so many tokens should not be hashed on an event loop."""
        return count >= self._slow_from

    def keys(self, tokens: Sequence[int], block_size: int) -> Sequence[int]:
        """One signed 64-bit key for each full block of `block_size` (> 0) tokens: an int64 array."""
        return cast(Sequence[int], self._hash(np.asarray(tokens, dtype=np.int64), block_size))
