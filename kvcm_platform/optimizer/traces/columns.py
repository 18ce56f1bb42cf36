"""Columns on disk: .npy files written front to back, and memory-mapped arrays that grow.

Everything that grows with a trace is a file, so that a trace larger than memory is read: what the kernel
keeps of a file in memory it can give back.
"""

from __future__ import annotations

import io
import os
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

HEADER_BYTES = 128
"""Room for the header of a .npy file of one dimension, whose length is known only at the end."""


class NpyWriter:
    """A one-dimensional .npy file, appended to; readable only after `close`."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb")
        self._file.seek(HEADER_BYTES)

    def append(self, values: NDArray[Any] | array[Any]) -> None:
        """Adds values of the writer's type (others are converted, which must lose nothing)."""
        column = np.asarray(values)
        if column.dtype != self.dtype:
            column = column.astype(self.dtype, casting="same_kind")
        # Not tofile: of a full disk it says no more than how many were written.
        self._file.write(np.ascontiguousarray(column).data)
        self.length += len(column)

    def flush(self) -> None:
        """What was appended can be read through a memory map at HEADER_BYTES."""
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        self._file.seek(0)
        self._file.write(npy_header(self.dtype, self.length))
        self._file.close()


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """The header of a one-dimensional array, always HEADER_BYTES long."""
    header = io.BytesIO()
    npy.write_array_header_1_0(
        header, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
    )
    written = header.getvalue()
    if len(written) != HEADER_BYTES:
        raise AssertionError(f"a header of {len(written)} bytes")
    return written


class GrowingColumn:
    """A memory-mapped array whose length doubles on demand; new elements are 0.

    `values` is another array after `reserve`. `close(length)` makes a .npy file of that length.
    """

    def __init__(self, path: Path, dtype: DTypeLike, capacity: int) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        path.write_bytes(b"")
        self.values = self._map(max(1, capacity))

    def reserve(self, capacity: int, most: int = 1 << 62) -> None:
        """Room for `capacity` elements, and not for more than `most`."""
        if capacity > len(self.values):
            self.values = self._map(max(capacity, min(most, 2 * len(self.values))))

    def close(self, length: int) -> None:
        size = HEADER_BYTES + length * self.dtype.itemsize
        self.values = np.zeros(0, dtype=self.dtype)
        with self.path.open("r+b") as file:
            file.truncate(size)
            file.write(npy_header(self.dtype, length))

    def discard(self) -> None:
        self.values = np.zeros(0, dtype=self.dtype)
        self.path.unlink()

    def _map(self, capacity: int) -> NDArray[Any]:
        take_room(self.path, HEADER_BYTES + capacity * self.dtype.itemsize)
        mapped = np.memmap(self.path, dtype=self.dtype, mode="r+", offset=HEADER_BYTES, shape=(capacity,))
        # A plain array over the map: numba compiles one signature, and slices are cheap.
        return np.asarray(mapped).view(np.ndarray)


def take_room(path: Path, size_bytes: int) -> None:
    """Makes a file so long, with room on the disk for all of it.

    Through a memory map a full disk would be a signal that kills the process. Raises OSError.
    """
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error


def map_column(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """A .npy file of one dimension, memory-mapped for reading. Raises ValueError for anything else."""
    with path.open("rb") as file:
        if npy.read_magic(file) != (1, 0):
            raise ValueError(f"{path.name} is not a column")
        shape, _, found = npy.read_array_header_1_0(file)
        start = file.tell()
        room = os.fstat(file.fileno()).st_size - start
    if len(shape) != 1 or found != np.dtype(dtype):
        raise ValueError(f"{path.name} holds {found} {shape}, not {np.dtype(dtype)} of one dimension")
    if room < shape[0] * found.itemsize:
        raise ValueError(f"{path.name} is cut off")
    if shape[0] == 0:
        return np.zeros(0, dtype=dtype)
    mapped = np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape)
    return np.asarray(mapped).view(np.ndarray)
