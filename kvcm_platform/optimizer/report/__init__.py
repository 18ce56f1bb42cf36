"""Reports as files: PNG, standalone HTML, text."""

from .content import Line, Quota, Report, Table, Worth
from .html import report_html
from .palette import Scheme
from .picture import curves_png
from .text import report_text, table_text

__all__ = [
    "Line",
    "Quota",
    "Report",
    "Scheme",
    "Table",
    "Worth",
    "curves_png",
    "report_html",
    "report_text",
    "table_text",
]
