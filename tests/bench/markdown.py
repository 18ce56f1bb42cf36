"""`python -m tests.bench.markdown`: the rows of build/bench.json as the tables of docs/performance.md."""

from __future__ import annotations

import json
import sys
from typing import Any

from .report import OUTPUT

SHOWN = ("calls_per_s", "p50_ms", "p99_ms")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cells(row: dict[str, Any]) -> list[str]:
    target = ""
    if row["target"] is not None:
        sign = "≥" if row["is_floor"] else "≤"
        target = f"{sign} {number(row['target'])} {'met' if row['is_met'] else '**not met**'}"
    details = {
        name: value
        for name, value in row["details"].items()
        if name not in SHOWN and not name.endswith("_us")
    }
    rest = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in details.items())
    numbers = [number(row["details"][name]) if name in row["details"] else "" for name in SHOWN]
    return [row["name"], f"{number(row['value'])} {row['unit']}", target, *numbers, rest]


def main() -> None:
    document = json.loads(OUTPUT.read_text())
    machine = document["machine"]
    load = machine["load_average"][0]
    print(
        f"{document['at']}, commit {document['commit']}: {machine['cores']} cores {machine['processor']},"
        f" Python {machine['python']}, load {load:.1f} at the end. Command: `make bench`."
    )
    rows = document["rows"]
    for part in dict.fromkeys(row["part"] for row in rows):
        print(f"\n### {part}\n")
        print("| | value | target | calls/s | p50 ms | p99 ms | |")
        print("|---|---|---|---|---|---|---|")
        for row in rows:
            if row["part"] == part:
                print(f"| {' | '.join(cells(row))} |")


if __name__ == "__main__":
    sys.exit(main())
