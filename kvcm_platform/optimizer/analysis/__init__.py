"""Analyses: what is asked of a trace, split into jobs, each carried out by a process of its own."""
