"""Packed files as streams that give all there is and then tell that the file is cut off.

The readers of the libraries end silently there (zstd), or lose what they had unpacked already (gzip).
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import zstandard

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
UNPACK_ERRORS = (EOFError, zlib.error, zstandard.ZstdError)
"""What reading of a packed file that is cut off or damaged raises."""

_READ_BYTES = 1 << 18
_FEED_BYTES = 1 << 12
"""Unpacked at a time: a frame of nothing but zeros grows 30,000-fold, which then is 128 MiB at most."""


def unpacked(file: BinaryIO, magic: bytes) -> io.RawIOBase | None:
    """The unpacked bytes of a file that begins with `magic`; None if it is not packed."""
    if magic.startswith(GZIP):
        return UnpackedStream(file, lambda: zlib.decompressobj(wbits=31))
    if magic.startswith(ZSTD):
        return UnpackedStream(file, lambda: zstandard.ZstdDecompressor().decompressobj())
    return None


class UnpackedStream(io.RawIOBase):
    """The bytes of all frames, one after the other. Raises UNPACK_ERRORS where they end too early."""

    def __init__(self, file: BinaryIO, new_frame: Callable[[], Any]) -> None:
        self._file = file
        self._new_frame = new_frame
        self._packed = memoryview(b"")
        self._unpacked = memoryview(b"")
        self._frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._unpacked:
            if not self._packed:
                self._packed = memoryview(self._file.read(_READ_BYTES))
                if not self._packed:
                    if self._frame is not None:
                        raise EOFError("its last frame is not whole")
                    return 0
            self._unpack_piece()
        count = min(len(buffer), len(self._unpacked))
        buffer[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count

    def _unpack_piece(self) -> None:
        piece, self._packed = self._packed[:_FEED_BYTES], self._packed[_FEED_BYTES:]
        if self._frame is None:
            # Zeros after a frame are padding, as tapes and block devices leave it.
            padding = len(piece) - len(bytes(piece).lstrip(b"\0"))
            piece = piece[padding:]
            if not piece:
                return
            self._frame = self._new_frame()
        self._unpacked = memoryview(self._frame.decompress(piece))
        if self._frame.eof:
            self._packed = memoryview(self._frame.unused_data + bytes(self._packed))
            self._frame = None
