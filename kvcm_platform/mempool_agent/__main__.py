"""`python -m kvcm_platform.mempool_agent`: the process that exports a host's memory to a pool."""

from __future__ import annotations

import sys

import structlog
import uvloop

from kvcm_platform.settings.env import BadSetting, Env

from .logs import configure
from .options import BadOption, read_options, settle_on
from .process import run
from .segment import CannotServe, node_lock


def main() -> int:
    try:
        options = read_options(None, Env()["KVCM_POOL_TOKEN"])
    except (BadSetting, BadOption) as error:
        sys.stderr.write(f"memory pool agent: {error}\n")
        return 2
    configure(options.log_level)
    try:
        settle_on(options.numa_node)
        with node_lock(options.directory, options.node_id):
            uvloop.run(run(options))
    except (CannotServe, OSError) as error:
        structlog.get_logger(__name__).error("the agent cannot run", reason=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
