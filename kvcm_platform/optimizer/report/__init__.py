"""Reports as files: PNG, standalone HTML, text."""

from .axis import span_text
from .bars import reuse_bars
from .content import Bars, Line, Quota, Report, Table, Worth
from .html import report_html
from .palette import Scheme
from .picture import curves_png
from .text import report_text, table_text

__all__ = [
    "Bars",
    "Line",
    "Quota",
    "Report",
    "Scheme",
    "Table",
    "Worth",
    "curves_png",
    "report_html",
    "report_text",
    "reuse_bars",
    "span_text",
    "table_text",
]
