"""The REST interface of a running platform, as an operator's script uses it."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.support.platform_process import PlatformProcess
from tests.support.replays import manage


class Rest:
    """One account with a token. Raises urllib.error.HTTPError for answers that are no success."""

    def __init__(self, platform: PlatformProcess, token: str) -> None:
        self._url = f"http://127.0.0.1:{platform.port('KVCM_WEB_PORT')}/api/v1/"
        self._token = token

    def __call__(self, path: str, body: Any = None, method: str = "") -> Any:
        """GET without a body and POST with one, unless `method` says so; the answer's JSON."""
        request = urllib.request.Request(
            f"{self._url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method or ("GET" if body is None else "POST"),
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None


def admin_of(platform: PlatformProcess, name: str) -> Rest:
    """The administrator of a platform that was started with a password for one, with a new token."""
    done = manage(platform, "create_token", "--username", "admin", "--name", name)
    assert done.returncode == 0, done.stderr
    return Rest(platform, done.stdout.split()[-1])
