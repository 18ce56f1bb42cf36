"""The real supervisor over small stand-ins for the platform's processes.

Run as a program. STAND_IN_CONTROL chooses what `control` does: `serve`, `crash` (dies at once),
`stubborn` (ignores SIGTERM).
"""

from __future__ import annotations

import os
import sys

from kvcm_platform.settings.env import Env
from kvcm_platform.supervisor import __main__ as entry
from kvcm_platform.supervisor import roster, supervisor
from kvcm_platform.supervisor.prepare import Login
from kvcm_platform.supervisor.spec import ChildSpec

_CHILD = """
import os, signal, sys, time
import redis
from kvcm_platform.index import heartbeat
role, mode = sys.argv[1:]
if mode == "crash":
    print("first words", flush=True)
    sys.exit("ERROR the reason it dies")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
client = redis.Redis.from_url(os.environ["KVCM_REDIS_URL"])
print("WARNING admin password seen" if "KVCM_ADMIN_PASSWORD" in os.environ else "starting", flush=True)
while True:
    heartbeat.beat(client, role, os.environ["KVCM_NODE_ID"])
    time.sleep(0.1)
"""


def _spec(name: str, role: str, stage: int, mode: str = "serve") -> ChildSpec:
    return ChildSpec(name, role, (sys.executable, "-c", _CHILD, role, mode), stage)


async def _prepare(env: Env, *_: object) -> Login:
    return Login("admin", "made-just-now" if not (env.data_dir / "prepared").exists() else "")


if __name__ == "__main__":
    roster.metadata = lambda env: [_spec("metadata-1", "metadata", roster.STAGE_SERVE)]
    roster.django = lambda env: [
        _spec("control", "control", roster.STAGE_SERVE, os.environ.get("STAND_IN_CONTROL", "serve")),
        _spec("worker", "worker", roster.STAGE_WORK),
    ]
    supervisor.prepare = _prepare
    sys.exit(entry.main(sys.argv[1:]))
