from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .metadata_processes import MetadataProcesses


@pytest.fixture(scope="module")
def shared_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetadataProcesses]:
    """Two metadata processes on one port, with a Valkey of their own, an nfs storage and a group."""
    with MetadataProcesses.start(tmp_path_factory.mktemp("platform"), count=2) as running:
        yield running


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[MetadataProcesses]:
    """The same for one test alone, to be disturbed."""
    with MetadataProcesses.start(tmp_path, count=2) as running:
        yield running
