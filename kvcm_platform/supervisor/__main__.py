"""`manage.py up [--ephemeral] [--demo]`: the whole platform on this machine. Loads no Django."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvcm_platform.settings.env import BadSetting, Env

from .data_dir import claimed, require_writable
from .errors import CannotStart
from .output import Terminal
from .ports import require_free_ports
from .supervisor import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, check, run; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="manage.py up", description="Start the whole platform on this machine."
    )
    parser.add_argument(
        "--ephemeral", action="store_true", help="use a temporary data directory, removed at the end"
    )
    parser.add_argument("--demo", action="store_true", help="add simulated engines that make real calls")
    options = parser.parse_args(arguments)
    terminal = Terminal()
    try:
        with _environ(ephemeral=options.ephemeral) as environ:
            env = Env(environ)
            require_writable(env.data_dir)
            with claimed(env.data_dir):
                require_free_ports(env)
                return run(env, terminal, with_demo=options.demo)
    except (CannotStart, BadSetting) as error:
        sys.stderr.write(f"{error}\n")
        return 1


@contextmanager
def _environ(*, ephemeral: bool) -> Iterator[dict[str, str]]:
    environ = dict(os.environ)
    if not ephemeral:
        yield environ
        return
    folder = Path(tempfile.mkdtemp(prefix="kvcm-"))
    try:
        yield {**environ, "KVCM_DATA_DIR": str(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
