"""The process of `tests/grpc`, served by the fast endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.grpc import test_meta_service as scenarios

keys = scenarios.keys


@pytest.fixture(scope="module", autouse=True)
def fast_transport() -> Iterator[None]:
    """Every metadata process that a test of this folder starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "KVCM_TRANSPORT", "fast")
        yield
