"""What an engine does is seen in the browser while it happens, without a reload."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from tests.e2e.conftest import Platform
from tests.support.platform_process import get_status, wait_for

INSTANCE = "e2e-model"


@pytest.fixture
def engine(platform: Platform) -> Iterator[BlockingMetadataClient]:
    registration = Registration(
        instance_group="default",
        instance_id=INSTANCE,
        block_size=16,
        location_spec_infos=(LocationSpecInfo("tp0", 4096),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=1),
    )
    with BlockingMetadataClient(Connection(platform.endpoint, timeout_seconds=5)) as client:
        client.register_instance(registration)
        yield client


def figure(page: Page, name: str) -> int:
    return int(page.get_by_role("group", name=name, exact=True).inner_text().replace(",", ""))


def expect_figure(page: Page, name: str, value: int) -> None:
    expect(page.get_by_role("group", name=name, exact=True)).to_have_text(f"{value:,}", timeout=10_000)


def test_requested_and_hit_blocks_move_while_engines_work(
    operator: Page, engine: BlockingMetadataClient
) -> None:
    operator.evaluate("window.isTheSamePage = true")
    requested, hit = figure(operator, "Requested blocks"), figure(operator, "Hit blocks")

    keys = [7_000_000 + number for number in range(64)]
    assert len(engine.get_cache_location(INSTANCE, keys)) == 0
    expect_figure(operator, "Requested blocks", requested + 64)
    expect_figure(operator, "Hit blocks", hit)

    started = engine.start_write(INSTANCE, keys)
    expect_figure(operator, "Open write sessions", 1)
    engine.finish_write(INSTANCE, started.session_id, len(started.to_write_indexes))
    expect_figure(operator, "Open write sessions", 0)

    asked_at = time.monotonic()
    assert len(engine.get_cache_location(INSTANCE, keys)) == 64
    expect_figure(operator, "Hit blocks", hit + 64)
    assert time.monotonic() - asked_at < 15
    expect_figure(operator, "Requested blocks", requested + 128)
    assert operator.evaluate("window.isTheSamePage") is True


def test_the_same_page_goes_on_after_the_index_was_killed(
    operator: Page, engine: BlockingMetadataClient, platform: Platform
) -> None:
    operator.evaluate("window.isTheSamePage = true")
    old = platform.child("valkey")
    os.kill(old["pid"], signal.SIGKILL)
    wait_for(lambda: platform.child("valkey")["pid"] not in (None, old["pid"]), 30, "Valkey is back")
    wait_for(lambda: get_status(f"{platform.url}/healthz/ready") == 200, 60, "ready again")

    requested = figure(operator, "Requested blocks")
    keys = [8_000_000 + number for number in range(16)]
    engine.get_cache_location(INSTANCE, keys)
    expect(operator.get_by_role("group", name="Requested blocks", exact=True)).not_to_have_text(
        f"{requested:,}", timeout=45_000
    )
    expect(operator.get_by_text("Live", exact=True).first).to_be_visible(timeout=45_000)
    assert operator.evaluate("window.isTheSamePage") is True


def test_the_live_pill_says_live(operator: Page) -> None:
    expect(operator.get_by_text("Live", exact=True).first).to_be_visible()
