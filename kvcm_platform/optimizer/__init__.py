"""The optimizer: replays traces and says what capacity and policy are worth.

A library of pure functions over a columnar `Trace` (trace.py); answers are `Curve`s (curve.py). It
knows core alone, no database and no server; `apps/optimizer_reports` keeps and schedules its runs.
"""
