from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mempool import AgentHost, agent_host


@pytest.fixture
def host() -> Iterator[AgentHost]:
    with agent_host() as host:
        yield host
