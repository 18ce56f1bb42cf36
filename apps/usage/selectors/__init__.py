"""Reads of what is held, of its history and of what comes of it: a file for each question."""
