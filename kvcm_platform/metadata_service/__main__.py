"""`python -m kvcm_platform.metadata_service`: one process of the data plane."""

from __future__ import annotations

import sys

import structlog
import uvloop
from redis.exceptions import RedisError

from kvcm_platform.core.errors import DomainError
from kvcm_platform.settings.env import BadSetting, Env

from .logs import configure
from .process import Process


def main() -> int:
    try:
        env = Env()
    except BadSetting as error:
        sys.stderr.write(f"metadata service: {error}\n")
        return 2
    configure(env["KVCM_LOG_LEVEL"])

    async def run() -> None:
        await Process(env).run()

    try:
        uvloop.run(run())
    except (OSError, RedisError, DomainError) as error:
        structlog.get_logger(__name__).error("metadata service cannot run", reason=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
