"""The library of server-side functions: its source and how it gets into the server."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

LIBRARY = "kvcm"


@cache
def source() -> str:
    """The files of `index/lua` joined in name order, with a function that tells their digest."""
    parts = [path.read_text() for path in sorted((Path(__file__).parent / "lua").glob("*.lua"))]
    body = "\n".join(parts)
    version = digest(body)
    return (
        f"#!lua name={LIBRARY}\n{body}\n"
        "redis.register_function{function_name = 'kvcm_version', flags = {'no-writes'}, "
        f"callback = function() return '{version}' end}}\n"
    )


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


@cache
def version() -> str:
    """What `kvcm_version` answers when the server has this very library."""
    parts = [path.read_text() for path in sorted((Path(__file__).parent / "lua").glob("*.lua"))]
    return digest("\n".join(parts))
