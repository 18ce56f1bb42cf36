"""Parses the arguments, runs one command, and turns what may go wrong into one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.traces import TraceError

from .arguments import parser
from .console import plain

_REFUSED = 2
_INTERRUPTED = 128 + signal.SIGINT
_BROKEN_PIPE = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """0 = done; 2 = an argument or a trace that cannot be used, told in one line on stderr; 130 =
    interrupted."""
    options = parser().parse_args(arguments)
    try:
        # On use: they load compiled code, which --help and refusals of arguments need not wait for.
        module, function = options.run.split(".")
        getattr(import_module(f"{__package__}.{module}"), function)(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not try to flush it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except DomainError as error:
        return _fail(error.message)
    except (TraceError, ValueError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except MemoryError:
        return _fail("not enough memory: choose fewer capacities or a part of the trace")
    return 0


def _fail(message: str, code: int = _REFUSED) -> int:
    sys.stderr.write(f"optimizer: {plain(' '.join(message.split()))}\n")
    return code
