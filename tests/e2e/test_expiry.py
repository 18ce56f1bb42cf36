"""A silent engine: its write session ends by itself, and others may write within two seconds."""

from __future__ import annotations

import time

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from tests.e2e.conftest import Platform
from tests.support.platform_process import wait_for

TIMEOUT = 2


def test_an_expired_session_frees_its_keys_within_two_seconds(platform: Platform) -> None:
    registration = Registration(
        instance_group="default",
        instance_id="silent",
        block_size=16,
        location_spec_infos=(LocationSpecInfo("tp0", 4096),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=1),
    )
    keys = list(range(91_000, 91_040))
    with BlockingMetadataClient(Connection(platform.endpoint, timeout_seconds=5)) as client:
        client.register_instance(registration)
        first = client.start_write("silent", keys, timeout_seconds=TIMEOUT)
        opened = time.monotonic()
        assert len(first.to_write_indexes) == len(keys)
        second = client.start_write("silent", keys)
        assert len(second.to_write_indexes) == 0
        client.finish_write("silent", second.session_id, 0)

        def is_writable() -> bool:
            started = client.start_write("silent", keys)
            client.finish_write("silent", started.session_id, len(started.to_write_indexes))
            return len(started.to_write_indexes) == len(keys)

        wait_for(is_writable, TIMEOUT + 10, "the keys can be written again")
        waited = time.monotonic() - opened
        assert waited >= TIMEOUT - 0.1
        # The promise is two seconds past the deadline; a loaded machine may take longer to run the sweep.
        assert waited < TIMEOUT + 8
