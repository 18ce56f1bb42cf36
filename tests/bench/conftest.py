"""Prints the run's table at its end and writes it as JSON."""

from __future__ import annotations

import pytest

from .report import REPORT, Report


@pytest.fixture
def report() -> Report:
    return REPORT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REPORT.rows:
        terminalreporter.write_line(REPORT.table())
        terminalreporter.write_line(f"\nWritten to {REPORT.write()}")
