"""Reads of traces, runs and results."""
