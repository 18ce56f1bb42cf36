"""Keyed hashes: what is hashed cannot be guessed by trying, as long as the salt stays secret.

BLAKE2b with the salt as its key (RFC 7693). The same salt gives the same hashes, so that traces of several
days can be laid over each other; who has the salt can test guesses: throw it away when that is done.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b

_STATE_BYTES = 16
_LONGEST_KEY = 64


class KeyedHash:
    """Hashes under one salt."""

    def __init__(self, salt: bytes) -> None:
        if not salt:
            raise ValueError("the salt is empty")
        self._key = salt if len(salt) <= _LONGEST_KEY else blake2b(salt).digest()

    def key(self, number: int, space: int = 0) -> int:
        """A block key for a block key (signed 64-bit both) in a namespace."""
        digest = blake2b(struct.pack("<qq", space, number), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    def name(self, text: str, kind: str) -> str:
        """A name for a name: the kind and 12 digits. The empty name stays empty."""
        if not text:
            return ""
        digest = blake2b(f"{kind}\0{text}".encode(), key=self._key, digest_size=6)
        return f"{kind}-{digest.hexdigest()}"

    def chain(
        self, tokens: Sequence[int | str], block_tokens: int, *, with_partial: bool = False
    ) -> list[int]:
        """Block keys of a prompt by token ids or texts: each over its block and the hash of all before it."""
        keys = []
        state = b""
        end = len(tokens) if with_partial else len(tokens) - len(tokens) % block_tokens
        for begin in range(0, end, block_tokens):
            block = b"".join(map(_token_bytes, tokens[begin : begin + block_tokens]))
            state = blake2b(state + block, key=self._key, digest_size=_STATE_BYTES).digest()
            keys.append(int.from_bytes(state[:8], "little", signed=True))
        return keys


def _token_bytes(token: int | str) -> bytes:
    """Such that no two sequences of tokens give the same bytes."""
    if isinstance(token, str):
        data = token.encode("utf-8", "surrogatepass")
        return b"s" + struct.pack("<I", len(data)) + data
    return b"i" + struct.pack("<q", token)
