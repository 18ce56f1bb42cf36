"""What engines do is seen seconds later as hit rates at other capacities, also when a worker dies."""

from __future__ import annotations

import os
import signal

import pytest
from playwright.sync_api import Page, expect

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from tests.e2e.conftest import Platform
from tests.support.eventually import eventually

pytestmark = pytest.mark.long
INSTANCE = "estimated-model"
PROMPTS = [[90_000_000 + 100 * number + block for block in range(20)] for number in range(10)]


@pytest.fixture
def engine(platform: Platform):
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


def turns(engine: BlockingMetadataClient) -> None:
    """Each prompt is looked up, and written where it was missing."""
    for keys in PROMPTS:
        engine.get_cache_location(INSTANCE, keys)
        started = engine.start_write(INSTANCE, keys)
        engine.finish_write(INSTANCE, started.session_id, len(started.locations))


def asked_blocks(page: Page) -> int:
    rows = page.request.get(f"/api/v1/optimizer/estimates/?kind=instance&instance_id={INSTANCE}").json()
    return rows["results"][0]["asked_blocks"] if rows["count"] else 0


def test_hit_rates_at_other_capacities(
    operator: Page, engine: BlockingMetadataClient, platform: Platform
) -> None:
    # Processes sample from a round of the worker on, and half a second later.
    eventually(lambda: (turns(engine), asked_blocks(operator))[1])
    worker = platform.child("worker")["pid"]
    os.kill(worker, signal.SIGKILL)
    before = asked_blocks(operator)
    turns(engine)
    eventually(lambda: asked_blocks(operator) >= before + 200, seconds=60)
    operator.goto(f"/instances/{INSTANCE}")
    table = operator.get_by_role("table", name="Hit rate at other capacities")
    for name in ("Measured", "Half", "Present", "Twice", "Four times"):
        expect(table.get_by_role("row").filter(has=operator.get_by_text(name, exact=True))).to_have_count(1)
    present = table.get_by_role("row").filter(has=operator.get_by_text("Present", exact=True))
    expect(present).to_contain_text("%")
    expect(operator.get_by_text("More capacity would hardly hit more.")).to_be_visible()
