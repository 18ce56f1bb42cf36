"""Bytes that a block must hold, made from its name instead of being remembered.

The content of a block is a stream of 64-bit words: word i is the SplitMix64 mix of
seed + (i + 1) × golden, where the seed hashes instance, spec and key. Any byte can be made
again at any time, so a replay can compare all it reads with all it ever wrote without storing
a copy, and a block in a wrong slot, a hole or a torn write shows as differing bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


class BlockPattern:
    """The contents of one instance's blocks of `size` bytes each, for one spec."""

    def __init__(self, instance_id: str, spec_name: str, size: int) -> None:
        self.size = size
        self._name_seed = xxhash.xxh3_64_intdigest(f"{instance_id}\0{spec_name}".encode())
        self._steps = np.arange(1, (size + 7) // 8 + 1, dtype=np.uint64) * _GOLDEN

    def blocks(self, keys: Iterable[int]) -> list[bytes]:
        """What each block holds, in order."""
        seeds = np.fromiter((self._seed(key) for key in keys), dtype=np.uint64)
        words = seeds[:, None] + self._steps[None, :]
        words ^= words >> _S30
        words *= _MIX_1
        words ^= words >> _S27
        words *= _MIX_2
        words ^= words >> _S31
        rows = words.astype("<u8", copy=False).view(np.uint8)
        return [row[: self.size].tobytes() for row in rows]

    def block(self, key: int) -> bytes:
        """What one block holds."""
        return self.blocks([key])[0]

    def _seed(self, key: int) -> int:
        name = (key & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
        return xxhash.xxh3_64_intdigest(name, seed=self._name_seed)


def wrong_bytes(found: bytes, expected: bytes) -> int:
    """How many bytes differ; missing ones count as different."""
    if found == expected:
        return 0
    common = min(len(found), len(expected))
    left = np.frombuffer(found, np.uint8, common)
    right = np.frombuffer(expected, np.uint8, common)
    return int(np.count_nonzero(left != right)) + max(len(found), len(expected)) - common
