"""Generates docs/configuration.md from the typed environment: `make config-table`."""

from __future__ import annotations

import sys
from pathlib import Path

from kvcm_platform.settings.env import KNOBS, Knob

_HEAD = """\
# Configuration

Every environment variable of the platform. Generated from `kvcm_platform/settings/env.py` by
`make config-table`; `make lint` fails when the two differ. Values are checked at start: a bad one ends
the start with one sentence that names the variable.

| variable | default | meaning |
|---|---|---|
"""


def configuration_table() -> str:
    """The whole document."""
    return _HEAD + "".join(_row(knob) for knob in KNOBS)


def _row(knob: Knob) -> str:
    default = knob.shown_default or (f"`{knob.default}`" if knob.default else "–")
    cells = (f"`{knob.name}`", default, knob.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(configuration_table(), encoding="utf-8")
