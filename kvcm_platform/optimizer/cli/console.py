"""What a command says: JSON or text on stdout, bars and notes on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson
from tqdm import tqdm  # type: ignore[import-untyped]

from ..curve import Progress

_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")


@contextmanager
def bar(options: argparse.Namespace, title: str) -> Iterator[Progress]:
    """A bar on stderr while the block runs; none where nobody watches, or with --quiet."""
    is_hidden = options.quiet or not sys.stderr.isatty()
    form = "{l_bar}{bar}| {elapsed}<{remaining}"
    with tqdm(
        total=1.0, desc=title, bar_format=form, file=sys.stderr, disable=is_hidden, leave=False
    ) as drawn:

        def told(share: float) -> None:
            drawn.update(max(0.0, min(1.0, share) - drawn.n))

        yield told


def plain(text: str) -> str:
    """Without what would command a terminal: names and keys come from traces."""
    return text.translate(_CONTROLS)


def note(options: argparse.Namespace, text: str) -> None:
    """One line on stderr, unless --quiet."""
    if not options.quiet:
        sys.stderr.write(f"{plain(text)}\n")
        sys.stderr.flush()


def print_json(document: Mapping[str, Any]) -> None:
    """One object on one line."""
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY).decode() + "\n")


def print_text(text: str) -> None:
    shown = plain(text)
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")


def write_file(options: argparse.Namespace, path: Path, content: str | bytes) -> None:
    """Whole or not at all: a name beside it first. Raises OSError.

    A device or a pipe is written to and stays what it is; of a link, what it points at is replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
    else:
        path = path.resolve()
        beside = path.with_name(f".{path.name}.{token_hex(6)}.part")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    note(options, f"wrote {path}")
