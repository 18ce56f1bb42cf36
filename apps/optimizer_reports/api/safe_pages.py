"""What browsers may do with files that are made of other people's names."""

from __future__ import annotations

PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""A Content-Security-Policy: the page runs nothing, wherever it is opened."""
