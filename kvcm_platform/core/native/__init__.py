"""The compiled twin of hot loops: used where `.ci/native.sh` could build it, never needed.

The library lies in the environment (`sys.prefix`), named by a digest of its source: one that was built
from another source is never loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
BlockKeys = Callable[[Keys, int], Keys]
SOURCE = Path(__file__).with_name("block_keys.c")
_CHECK = ((-1, 5), (-7046029254386353132, -8366447769517733433))
"""Tokens in blocks of one and their keys, from WIRE.md 3.1."""


def library_path() -> Path:
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return Path(sys.prefix) / "lib" / f"kvcm_block_keys-{digest}.so"


def load(path: Path) -> BlockKeys | None:
    """The loop of the library: an int64 array of tokens and a block size to an array of keys.

    None where there is no library, or one that cannot be loaded or does not pass its check.
    """
    try:
        function = ctypes.CDLL(str(path)).kvcm_block_keys
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    function.restype = ctypes.c_size_t

    def block_keys(tokens: Keys, block_size: int) -> Keys:
        if block_size <= 0:
            raise ValueError("block_size must be positive")
        tokens = np.ascontiguousarray(tokens, dtype=np.int64)
        keys = np.empty(len(tokens) // block_size, dtype=np.int64)
        function(tokens.ctypes.data, len(tokens), block_size, keys.ctypes.data)
        return keys

    tokens, expected = _CHECK
    return block_keys if tuple(block_keys(np.array(tokens), 1).tolist()) == expected else None


def load_built() -> BlockKeys | None:
    """The library of this environment, if it was built."""
    try:
        return load(library_path())
    except OSError:
        return None
