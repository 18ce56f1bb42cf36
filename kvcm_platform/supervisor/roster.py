"""Which processes make up the platform (docs/architecture.md), in the order of what needs what."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from kvcm_platform.settings.env import Env

from .spec import ChildSpec

STAGE_STORE, STAGE_SERVE, STAGE_WORK, STAGE_DEMO = range(4)

ROOT = Path(__file__).resolve().parents[2]
_MANAGE = str(ROOT / "manage.py")


def valkey(binary: str, configuration: Path, lock: int) -> ChildSpec:
    return ChildSpec(
        name="valkey",
        role="",
        command=(binary, str(configuration)),
        stage=STAGE_STORE,
        # SIGTERM makes it write its append-only file to the disk before it goes.
        death_signal=signal.SIGTERM,
        kept_descriptors=(lock,),
    )


def metadata(env: Env) -> list[ChildSpec]:
    """The data plane; needs only Redis, so it starts before the database is ready."""
    return [
        ChildSpec(
            name=f"metadata-{number}",
            role="metadata",
            command=(sys.executable, "-m", "kvcm_platform.metadata_service"),
            stage=STAGE_SERVE,
        )
        for number in range(1, env["KVCM_METADATA_WORKERS"] + 1)
    ]


def django(env: Env) -> list[ChildSpec]:
    """What needs a migrated database."""
    # `make lint` checks the project; doing it here would load every view for nothing.
    unchecked = {"CELERY_SKIP_CHECKS": "1"}
    # Threads, not processes: a prefork child would outlive a worker that is killed.
    # Enough that long work (duties, migrations, searches for orphans) leaves room for reclaim and the checks.
    worker = ("--pool", "threads", "--concurrency", "8", "--without-gossip", "--without-mingle")
    return [
        ChildSpec(
            name="web",
            role="web",
            command=(
                *(sys.executable, "-m", "uvicorn", "kvcm_platform.asgi:application"),
                *("--host", env.bind, "--port", str(env["KVCM_WEB_PORT"])),
                *("--no-access-log", "--log-level", "warning", "--timeout-graceful-shutdown", "1"),
                # The audit goes by the peer's address, which it could choose by a header.
                "--no-proxy-headers",
                # Browsers send subscriptions and nothing longer.
                *("--ws-max-size", str(1 << 16)),
            ),
            stage=STAGE_SERVE,
        ),
        ChildSpec(
            name="control",
            role="control",
            command=(sys.executable, _MANAGE, "control_service"),
            stage=STAGE_SERVE,
        ),
        ChildSpec(
            name="worker",
            role="worker",
            command=(
                *(sys.executable, "-m", "celery", "-A", "kvcm_platform.celery", "worker"),
                *("--loglevel", env["KVCM_LOG_LEVEL"], *worker),
            ),
            stage=STAGE_WORK,
            environment=unchecked,
            stop_seconds=4.0,
        ),
        ChildSpec(
            name="beat",
            role="beat",
            command=(
                *(sys.executable, "-m", "celery", "-A", "kvcm_platform.celery", "beat"),
                *("--loglevel", env["KVCM_LOG_LEVEL"], "--pidfile="),
                *("--scheduler", "django_celery_beat.schedulers:DatabaseScheduler"),
            ),
            stage=STAGE_WORK,
            environment=unchecked,
            stop_seconds=4.0,
        ),
    ]


def demo() -> ChildSpec:
    """Simulated engines that drive real calls, so that every page has live data."""
    return ChildSpec(
        name="demo",
        role="",
        command=(sys.executable, "-m", "kvcm_platform.client", "demo"),
        stage=STAGE_DEMO,
        stop_seconds=1.0,
    )
