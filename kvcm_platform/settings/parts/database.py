"""Where the control plane keeps its rows: SQLite in the data dir, or PostgreSQL by DATABASE_URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from kvcm_platform.settings.env import BadSetting, Env

_POSTGRES_SCHEMES = frozenset({"postgres", "postgresql"})
EMBEDDED = "embedded-postgres"


def databases(env: Env) -> dict[str, dict[str, Any]]:
    """The value of DATABASES. Raises `BadSetting` for a URL that is not PostgreSQL's."""
    url = env["DATABASE_URL"]
    if not url:
        return {"default": _sqlite(env.data_dir)}
    if url == EMBEDDED:
        return {"default": _postgres(f"postgresql://postgres@/postgres?host={env.data_dir / 'postgres'}")}
    return {"default": _postgres(url)}


def _sqlite(data_dir: Path) -> dict[str, Any]:
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "kvcm.sqlite3"
    # Made here for its mode: it holds session keys, and SQLite's other files copy it.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            # A deferred transaction that reads before it writes fails at once when another process
            # wrote in between, whatever the timeout; IMMEDIATE waits its turn instead.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        },
    }


def _postgres(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in _POSTGRES_SCHEMES:
        raise BadSetting(f"DATABASE_URL: scheme {parts.scheme!r} is unknown; use postgres://… or {EMBEDDED}")
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", None) or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, **options},
    }
