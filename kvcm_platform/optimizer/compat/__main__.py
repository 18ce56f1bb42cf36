"""`python -m kvcm_platform.optimizer.compat CONFIG`: runs a configuration file of the reference simulator.

Writes `<instance>_hit_rates.csv` into its output folder and prints one JSON object an instance. Errors are
one line and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm  # type: ignore[import-untyped]

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.traces import TraceError
from kvcm_platform.optimizer.compat.config import load_config
from kvcm_platform.optimizer.compat.run import run_config


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvcm_platform.optimizer.compat", description=__doc__)
    parser.add_argument(
        "config", type=Path, help="JSON of the reference simulator; docs/optimizer.md shows one"
    )
    chosen = parser.parse_args(arguments)
    try:
        with tqdm(total=100, unit="%", disable=None, file=sys.stderr, leave=False) as bar:

            def show(share: float) -> None:
                bar.update(round(100 * share) - bar.n)

            summaries = run_config(load_config(chosen.config), on_progress=show)
    except (DomainError, TraceError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    for summary in summaries:
        row = {
            **asdict(summary),
            "path": None if summary.path is None else str(summary.path),
            "hit_rate": round(summary.hit_rate, 6),
        }
        sys.stdout.write(json.dumps(row) + "\n")
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
