"""Which server is used, and how it is configured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvcm_platform.supervisor import valkey
from kvcm_platform.supervisor.errors import CannotStart


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("7.2.0", True), ("7.10.1", True), ("8.0", True), ("9.1.2", True), ("7.0.15", False), ("6.2.14", False)]
    + [("", False), ("unstable", False)],
)
def test_versions_from_7_2_on_will_do(version: str, verdict: bool) -> None:
    assert valkey.is_new_enough(version) is verdict


def test_the_wheel_brings_a_server() -> None:
    assert os.access(valkey.server_binary(), os.X_OK)


def test_without_any_server_the_sentence_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotStart, match="KVCM_REDIS_URL"):
        valkey.server_binary()


def test_the_configuration_keeps_data_and_refuses_to_evict(tmp_path: Path) -> None:
    text = valkey.write_configuration(tmp_path, tmp_path / "valkey.sock").read_text()
    for line in ("appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction", "port 0"):
        assert f"\n{line}\n" in text
    assert f'unixsocket "{tmp_path}/valkey.sock"' in text


def test_a_folder_for_the_socket_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with pytest.raises(CannotStart, match="shorter path"):
        valkey.write_configuration(tmp_path, folder / "valkey.sock")
