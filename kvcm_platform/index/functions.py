"""The library of server-side functions: its source, its names, and how it gets into a server.

Library and functions carry the digest of their source in their names, so processes of several
versions work on one server, each with its own functions. A library that no living process names
in its heartbeat is removed by control (`stale`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PREFIX = "kvcm_"
_DIGEST = 12


@cache
def _body() -> str:
    return "\n".join(path.read_text() for path in sorted((Path(__file__).parent / "lua").glob("*.lua")))


@cache
def version() -> str:
    """Digest of the source: names the library that this process uses."""
    return hashlib.sha256(_body().encode()).hexdigest()[:_DIGEST]


@cache
def library() -> str:
    return PREFIX + version()


@cache
def name(function: str) -> str:
    """The name in the server of a function that `index/lua` registers."""
    return f"{function}_{version()}"


def plain(called: str) -> str:
    """The name that `index/lua` registers, of a name with or without the version."""
    return called.removesuffix(f"_{version()}")


@cache
def source() -> str:
    """The files of `index/lua` joined in name order behind what names the library."""
    return f"#!lua name={library()}\nlocal VERSION = '{version()}'\n{_body()}"


def stale(libraries: Iterable[str], in_use: Iterable[str]) -> list[str]:
    """Those of our `libraries` whose version nobody uses."""
    kept = {PREFIX + one for one in in_use} | {library()}
    return [found for found in libraries if found.startswith(PREFIX) and found not in kept]
