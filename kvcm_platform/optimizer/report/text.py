"""A report as plain text: for terminals and the text part of mails."""

from __future__ import annotations

from collections.abc import Sequence

from .bars import bars_table
from .content import Report, Table
from .tables import curve_sentences, note_lines, other_tables, points_table
from .worth_tables import tiers_table, worth_sentences, worth_table


def report_text(report: Report) -> str:
    """The tables and sentences of the HTML page, without its pictures."""
    parts = [report.title, *([report.made_at] if report.made_at else [])]
    if report.facts:
        parts += ["", *(f"{name}: {value}" for name, value in report.facts)]
    if report.lines:
        parts += [
            "",
            *curve_sentences(report),
            "",
            table_text(points_table(report.lines, report.block_bytes)),
        ]
    worth = report.worth
    if worth:
        parts += [
            "",
            *worth_sentences(worth),
            "",
            table_text(worth_table(worth)),
            "",
            table_text(tiers_table(worth)),
        ]
    tables = [*other_tables(report), *(bars_table(bars) for bars in report.bars if sum(bars.counts))]
    for table in tables:
        parts += ["", f"{table.title}{f' ({table.note})' if table.note else ''}", table_text(table)]
    parts += ["", *note_lines(report)]
    return "\n".join(parts) + "\n"


def table_text(table: Table) -> str:
    """Columns as wide as their widest cell, two spaces apart."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    return "\n".join(_row(row, widths, table.numeric) for row in rows)


def _row(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = [
        cell.rjust(width) if i < len(numeric) and numeric[i] else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
