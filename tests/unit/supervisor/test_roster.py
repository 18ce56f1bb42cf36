"""How the processes are started."""

from __future__ import annotations

from uvicorn.main import main as uvicorn_command

from kvcm_platform.settings.env import Env
from kvcm_platform.supervisor import roster


def test_web_goes_by_the_peers_address() -> None:
    """uvicorn would believe X-Forwarded-For from loopback, and anybody on this host could send it."""
    (web,) = (child for child in roster.django(Env({})) if child.name == "web")
    given = uvicorn_command.make_context("uvicorn", list(web.command[3:])).params
    assert given["proxy_headers"] is False
