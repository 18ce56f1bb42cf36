"""The command line of the agent."""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.pool_layout import MAX_SEGMENT_BYTES, NODE_ID, SLAB_BYTES
from kvcm_platform.core.types import MEDIA_TYPES

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEDIA = ", ".join(f"{number} {medium}" for number, medium in MEDIA_TYPES.items())


class BadOption(ValueError):
    """An option that cannot be used; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator asked for. `token` "" = none is needed."""

    size_bytes: int
    node_id: str
    bind: str
    port: int
    media_type: int
    numa_node: int | None
    directory: Path
    file_mode: int
    is_discarding: bool
    removes_at_end: bool
    token: str
    log_level: str

    @property
    def host(self) -> str:
        """As it stands in an address."""
        return f"[{self.bind}]" if ":" in self.bind else self.bind


def size_bytes(text: str) -> int:
    """ "64G" in bytes: a number and K, M, G or T (powers of 1024). Whole slabs, rounded down."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512M or 64G")
    size = int(float(match[1]) * _SUFFIXES[match[2].upper()]) // SLAB_BYTES * SLAB_BYTES
    if not SLAB_BYTES <= size <= MAX_SEGMENT_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not between {SLAB_BYTES >> 20}M and 64T")
    return size


def _node_id(text: str) -> str:
    if not NODE_ID.fullmatch(text):
        raise argparse.ArgumentTypeError("1 to 63 letters, digits, '.', '_' or '-'")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _mode(text: str) -> int:
    if not re.fullmatch(r"[0-7]{3,4}", text) or int(text, 8) & 0o600 != 0o600 or int(text, 8) > 0o666:
        raise argparse.ArgumentTypeError("an octal mode from 600 to 666")
    return int(text, 8)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kvcm_platform.mempool_agent",
        description="Export shared memory of this host as a part of a tair_mempool storage.",
        epilog="SIGTERM stops the agent and leaves the memory: an agent started again with the same --node-id"
        " and --size takes it over, blocks and all. A ready agent prints one line of JSON.",
    )
    add = parser.add_argument
    add("--size", type=size_bytes, required=True, help="memory to export, such as 64G; whole 16 MiB slabs")
    add("--node-id", type=_node_id, required=True, help="name of this node, unique in its storage")
    add("--port", type=_port, default=7800, help="port of the agent's gRPC service; 0 picks one (7800)")
    add("--bind", default="127.0.0.1", help="address to listen on; beyond loopback a token is needed")
    add(
        "--media-type",
        type=int,
        choices=sorted(MEDIA_TYPES),
        default=2,
        help=f"what the memory is: {_MEDIA} (2)",
    )
    add("--numa", type=int, metavar="NODE", help="run on, and so take memory of, this NUMA node")
    add("--directory", type=Path, default=Path("/dev/shm"), help="file system of the segment (/dev/shm)")  # noqa: S108 - shared memory is what it is about
    add("--file-mode", type=_mode, default=0o600, help="who may map the segment: octal, 600 to 666 (600)")
    add("--discard", action="store_true", help="begin with empty memory even if there is some to take over")
    add("--remove-at-end", action="store_true", help="give the memory back to the host at SIGTERM")
    add(
        "--token-file",
        type=Path,
        help="file with the token that callers must bring; otherwise KVCM_POOL_TOKEN, if set",
    )
    add("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO", help="(INFO)")
    return parser


def read_options(arguments: list[str] | None, environment_token: str) -> Options:
    """Raises BadOption; SystemExit for what the parser refuses."""
    given = _parser().parse_args(arguments)
    token = environment_token
    if given.token_file is not None:
        try:
            token = given.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(f"--token-file: {given.token_file}: {error}") from error
        if not token:
            raise BadOption(f"--token-file: {given.token_file} is empty")
    if not token and not _is_loopback(given.bind):
        raise BadOption(f"--bind {given.bind}: beyond loopback a token is needed (--token-file)")
    if given.numa is not None and not _numa_cpus(given.numa):
        raise BadOption(f"--numa: there is no NUMA node {given.numa}")
    if not given.directory.is_dir():
        raise BadOption(f"--directory: {given.directory} is not a directory")
    return Options(
        size_bytes=given.size,
        node_id=given.node_id,
        bind=given.bind,
        port=given.port,
        media_type=given.media_type,
        numa_node=given.numa,
        directory=given.directory.resolve(),
        file_mode=given.file_mode,
        is_discarding=given.discard,
        removes_at_end=given.remove_at_end,
        token=token,
        log_level=given.log_level,
    )


def _is_loopback(bind: str) -> bool:
    if bind == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return False


def settle_on(numa_node: int | None) -> None:
    """Keeps this process on a node's processors: the pages that it touches first come from there."""
    if numa_node is not None:
        os.sched_setaffinity(0, _numa_cpus(numa_node))


def _numa_cpus(node: int) -> set[int]:
    """Processors of a NUMA node; none where it does not exist."""
    try:
        text = Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii")
    except OSError:
        return set()
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus
