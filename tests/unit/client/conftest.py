from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecGroup, LocationSpecInfo, ModelDeployment

from .fake_meta import FakeMeta, serve


@pytest.fixture
def registration() -> Registration:
    return Registration(
        instance_group="default",
        instance_id="qwen",
        block_size=16,
        location_spec_infos=(LocationSpecInfo("tp0", 64), LocationSpecInfo("tp1", 64)),
        location_spec_groups=(LocationSpecGroup("half", ("tp0",)),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=2),
    )


@pytest.fixture
def service(tmp_path: Path) -> FakeMeta:
    return FakeMeta(tmp_path)


@pytest.fixture
def endpoint(service: FakeMeta) -> Iterator[str]:
    with serve(service) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def client(endpoint: str, registration: Registration) -> Iterator[BlockingMetadataClient]:
    with BlockingMetadataClient(Connection(endpoint, token="secret")) as client:  # noqa: S106
        client.register_instance(registration)
        yield client
