"""The whole platform, started as an operator starts it, with a data directory and ports of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import redis
from playwright.sync_api import Browser, Page, sync_playwright

from kvcm_platform.index import keyspace
from kvcm_platform.settings.env import Env
from tests.support.platform_process import PlatformProcess, short_data_dir

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
USERNAME = "admin"
PASSWORD = "the first password"


@dataclass(frozen=True)
class Platform:
    """A platform that is ready, by its addresses."""

    process: PlatformProcess

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.process.port('KVCM_WEB_PORT')}"

    @property
    def endpoint(self) -> str:
        """MetaService over gRPC."""
        return f"127.0.0.1:{self.process.port('KVCM_META_RPC_PORT')}"

    def child(self, name: str) -> dict:
        """What the supervisor last published of one child; without a pid while Redis is away."""
        try:
            with redis.Redis.from_url(Env(self.process.environment).redis_url) as client:
                return next(
                    c for c in map(json.loads, client.hvals(keyspace.SUPERVISOR)) if c["name"] == name
                )
        except redis.RedisError:
            return {"name": name, "pid": None, "state": "unknown", "restarts": 0}


@pytest.fixture(scope="package")
def platform() -> Iterator[Platform]:
    with short_data_dir() as folder:
        process = PlatformProcess(
            ["manage.py", "up"], folder, KVCM_ADMIN_PASSWORD=PASSWORD, KVCM_METADATA_WORKERS="2"
        )
        try:
            process.wait_until_ready(120)
            yield Platform(process)
        finally:
            process.end()


# Not for the whole run: while Playwright is there, the main thread has a running event loop, and
# asynchronous tests would find it.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.fail("chromium is missing; `make test` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, platform: Platform) -> Iterator[Page]:
    """A fresh profile, not logged in. The test fails on an error that the page did not handle."""
    context = browser.new_context(base_url=platform.url, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def operator(page: Page) -> Page:
    """The page of someone who is logged in, on the Overview."""
    page.goto("/login")
    page.get_by_label("Username").fill(USERNAME)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("group", name="Requested blocks").wait_for()
    return page
