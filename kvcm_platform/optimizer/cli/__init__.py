"""The optimizer's command line: arguments in, progress on stderr, answers on stdout or in files."""

from .main import main

__all__ = ["main"]
