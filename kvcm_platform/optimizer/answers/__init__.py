"""Answers made from traces and curves, and their forms for other programs."""
