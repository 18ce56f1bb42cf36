"""Reclaim: when blocks of a group have to go, which ones, and what is told of it (DESIGN 6)."""
