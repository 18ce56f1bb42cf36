"""The figures of one run: collected row by row, compared with DESIGN.md 10, printed and written as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from .measure import Load

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "bench.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `target` is DESIGN.md's, None for what is only compared with."""

    part: str
    name: str
    value: float
    unit: str
    target: float | None = None
    is_floor: bool = False
    """The target is a least value, not a most one."""
    details: dict[str, float] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.is_floor else self.value <= self.target

    def line(self) -> str:
        verdict = {None: "", True: "met", False: "NOT MET"}[self.is_met]
        sign = ">=" if self.is_floor else "<="
        target = "" if self.target is None else f"{sign} {_number(self.target)}"
        details = "  ".join(f"{name} {_number(value)}" for name, value in self.details.items())
        return (
            f"{self.name:<46} {_number(self.value):>10} {self.unit:<12} {target:>10} {verdict:<8} {details}"
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


class Report:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def add(
        self,
        part: str,
        name: str,
        value: float,
        unit: str,
        target: float | None = None,
        *,
        is_floor: bool = False,
        **details: float,
    ) -> Row:
        row = Row(part, name, value, unit, target, is_floor, details)
        self.rows.append(row)
        print(f"\n{row.line()}", end="", flush=True)
        return row

    def add_load(self, part: str, name: str, load: Load, target: float | None = None) -> Row:
        """CPU of all the server's processes a call."""
        return self.add(
            part,
            name,
            load.total_us,
            "us CPU/call",
            target,
            calls_per_s=load.calls_per_second,
            p50_ms=load.p50_ms,
            p99_ms=load.p99_ms,
            **({f"{name}_us": value for name, value in load.cpu_us.items()} if len(load.cpu_us) > 1 else {}),
        )

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"\n{text}", end="", flush=True)

    def table(self) -> str:
        lines: list[str] = []
        for part in dict.fromkeys(row.part for row in self.rows):
            lines += ["", part, *(f"  {row.line()}" for row in self.rows if row.part == part)]
        judged = [row for row in self.rows if row.is_met is not None]
        missed = [row.name for row in judged if not row.is_met]
        lines += ["", f"Targets met: {len(judged) - len(missed)} of {len(judged)}"]
        lines += [f"  not met: {name}" for name in missed]
        return "\n".join([*lines, *self.notes])

    def write(self) -> Path:
        OUTPUT.parent.mkdir(exist_ok=True)
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        document = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit.stdout.strip(),
            "machine": {
                "cores": os.cpu_count(),
                "processor": _processor(),
                "system": platform.platform(),
                "python": platform.python_version(),
                "load_average": os.getloadavg(),
            },
            "rows": [{**asdict(row), "is_met": row.is_met} for row in self.rows],
            "notes": self.notes,
        }
        OUTPUT.write_text(json.dumps(document, indent=1) + "\n")
        return OUTPUT


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


REPORT = Report()
"""Of this run of pytest; conftest.py prints it at the end."""
