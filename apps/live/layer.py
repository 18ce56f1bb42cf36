"""The channel layer of live sockets."""

from __future__ import annotations

import asyncio
from typing import Any

from channels_redis.core import RedisChannelLayer


class LiveLayer(RedisChannelLayer):
    """The layer over Redis, whose waiting ends when it is cancelled.

    redis-py sends within `asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes as it
    ends (python/cpython#81839). Without a message the layer would then wait for the next one for ever, and a
    socket that closes as it connects with it.
    """

    brpop_timeout = 2
    """Seconds that Redis is asked to wait for a message; so long a dropped cancellation goes unnoticed."""

    async def _brpop_with_clean(self, index: int, channel: str, timeout: float) -> Any:
        message = await super()._brpop_with_clean(index, channel, timeout=timeout)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # The message is in the layer's backup: the next who receives gets it.
            raise asyncio.CancelledError
        return message
