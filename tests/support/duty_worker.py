"""One run of the background duties in a process of its own that stops itself before it deletes objects.

Arguments: Redis URL, lease in ms. Prints the report as JSON when it was continued and came to an end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict

from kvcm_platform.core.deletion import PendingObject
from kvcm_platform.duties import deleters, lease
from kvcm_platform.duties import run as duties
from kvcm_platform.duties.session import index_session


async def main(url: str, lease_ms: int) -> None:
    lease.LEASE_MS = lease_ms
    delete = deleters.BackendDeleter.delete

    async def stopping(self: deleters.BackendDeleter, objects: Sequence[PendingObject]) -> list[str]:
        os.kill(os.getpid(), signal.SIGSTOP)
        return await delete(self, objects)

    deleters.BackendDeleter.delete = stopping
    async with index_session(url) as session, lease.duties_lease(session) as owner:
        assert owner
        print(json.dumps(asdict(await duties.duties_run(session, owner=owner))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
