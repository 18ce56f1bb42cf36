"""A report as one HTML page: no script, nothing from outside, light or dark as the reader's system is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from .bars import bars_svg, bars_table
from .content import Report
from .palette import PALETTES, Scheme
from .svg import hit_rate_svg, worth_svg
from .tables import curve_sentences, note_lines, other_tables, points_table
from .worth_tables import tiers_table, worth_sentences, worth_table


def report_html(report: Report) -> str:
    """The whole page. Text from traces and people is escaped. Raises DomainError as the pictures do."""
    lines, worth = report.lines, report.worth
    return _template().render(
        report=report,
        light=PALETTES[Scheme.LIGHT],
        dark=PALETTES[Scheme.DARK],
        picture=hit_rate_svg(lines, block_bytes=report.block_bytes, quota=report.quota) if lines else "",
        summary=curve_sentences(report) if lines else [],
        points=points_table(lines, report.block_bytes) if lines else None,
        worth_picture=worth_svg(worth) if worth else "",
        worth_summary=worth_sentences(worth) if worth else [],
        worth_points=worth_table(worth) if worth else None,
        tiers=tiers_table(worth) if worth else None,
        bars=[(one, bars_svg(one), bars_table(one)) for one in report.bars if sum(one.counts)],
        tables=other_tables(report),
        notes=note_lines(report),
    )


@cache
def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("report.html.j2")
