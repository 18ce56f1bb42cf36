"""What an upload may grow to when it is unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zstandard

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis import reading

LINE = b'{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n'


def read(source: Path, tmp_path: Path) -> dict[str, Any]:
    arguments = {"source": source, "columns": tmp_path / "columns", "parquet": tmp_path / "a.parquet"}
    return reading.read_trace(
        {**arguments, "name": "a", "format": "mooncake", "options": {}}, lambda _share: None
    )


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_LEAST_UNPACKED_BYTES", 1 << 20)
    source = tmp_path / "source"
    source.write_bytes(zstandard.compress(LINE + b" " * (1 << 24)))
    with pytest.raises(DomainError, match="larger than") as refused:
        read(source, tmp_path)
    assert refused.value.field == "file"
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_is_packed_well_is_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(zstandard.compress(LINE * 20_000))
    assert read(source, tmp_path)["requests"] == 20_000
