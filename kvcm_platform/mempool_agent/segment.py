"""The file of the agent's segment: taken over when it fits, made anew when it does not.

`<directory>/kvcm-<node>-<segment id>` is the segment, `<directory>/kvcm-<node>.lock` is held while an agent
runs. Other names that begin like the segment's are left-overs of this node and are removed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.pool_layout import SLAB_BYTES, SegmentLayout
from kvcm_platform.transfer.pool_memory import BadSegment, SegmentMemory, Superblock

_RESERVED_AT_ONCE = 256 << 20
_NAME = "kvcm-{node_id}-"


class CannotServe(Exception):
    """The segment cannot be had; the sentence is for the operator."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The agent's memory. `is_taken_over`: its blocks are those of the agent before."""

    path: Path
    memory: SegmentMemory
    is_taken_over: bool

    @property
    def superblock(self) -> Superblock:
        return self.memory.superblock


@contextmanager
def node_lock(directory: Path, node_id: str) -> Iterator[None]:
    """Keeps a second agent of the same node away, until the process ends. Raises CannotServe."""
    path = directory / f"kvcm-{node_id}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CannotServe(f"{path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotServe(f"an agent of node {node_id} is already running ({path} is locked)") from error
        yield
    finally:
        os.close(handle)


def claim_segment(
    directory: Path,
    node_id: str,
    size_bytes: int,
    *,
    may_take_over: bool = True,
    file_mode: int = 0o600,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Segment:
    """The node's segment of this size, old or new. The node's lock is held. Raises CannotServe."""
    layout = SegmentLayout(size_bytes // SLAB_BYTES)
    found = sorted(directory.glob(_NAME.format(node_id=node_id) + "[0-9a-f]" * 16))
    for path in found:
        if may_take_over and (memory := _fitting(path, node_id, layout)) is not None:
            for other in found:
                if other != path:
                    give_up(other)
            return Segment(path, memory, is_taken_over=True)
    left = [*found, *directory.glob(_NAME.format(node_id=node_id) + "new-*")]
    _require_room(directory, layout, sum(path.stat().st_blocks * 512 for path in left))
    for path in left:
        give_up(path)
    return _made(directory, node_id, layout, file_mode, is_stopped)


def give_up(path: Path) -> None:
    """Removes a segment. Its memory comes back at once, even from programs that have it mapped: they
    find it empty from now on.
    """
    with suppress(OSError, ValueError), path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping.madvise(mmap.MADV_REMOVE)
    path.unlink(missing_ok=True)


def _fitting(path: Path, node_id: str, layout: SegmentLayout) -> SegmentMemory | None:
    try:
        memory = SegmentMemory.map(str(path), is_writable=True)
    except (OSError, BadSegment):
        return None
    is_same = memory.superblock.node_id == node_id and memory.layout == layout
    is_named = path.name.endswith(memory.superblock.segment_id)
    return memory if is_same and is_named else None


def _require_room(directory: Path, layout: SegmentLayout, given_up: int) -> None:
    """Before anything is given up for a segment that cannot be made. Raises CannotServe."""
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize + given_up
    if layout.file_bytes > free:
        raise CannotServe(
            f"{directory} has {free} bytes for it, the segment takes {layout.file_bytes}:"
            " give a smaller --size, or make the file system larger (mount -o remount,size=…)"
        )


def _made(
    directory: Path, node_id: str, layout: SegmentLayout, file_mode: int, is_stopped: Callable[[], bool]
) -> Segment:
    """A new segment with all its memory reserved: later nobody can be killed by a page that is not there."""
    superblock = Superblock(node_id, secrets.token_hex(8), layout, time.time_ns() // 1000)
    scratch = directory / (_NAME.format(node_id=node_id) + f"new-{superblock.segment_id}")
    path = directory / (_NAME.format(node_id=node_id) + superblock.segment_id)
    try:
        handle = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_mode)
        try:
            os.fchmod(handle, file_mode)
            _reserve(handle, layout.file_bytes, is_stopped)
            os.pwrite(handle, superblock.pack(), 0)
            mapping = mmap.mmap(handle, layout.file_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(handle)
        # Only whole segments get the name that others look for.
        os.rename(scratch, path)
    except OSError as error:
        raise CannotServe(f"{scratch}: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
    with suppress(OSError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return Segment(path, SegmentMemory(mapping, superblock), is_taken_over=False)


def _reserve(handle: int, size: int, is_stopped: Callable[[], bool]) -> None:
    for start in range(0, size, _RESERVED_AT_ONCE):
        if is_stopped():
            raise CannotServe("stopped while the memory was being reserved")
        os.posix_fallocate(handle, start, min(_RESERVED_AT_ONCE, size - start))
