"""A wrong address is said at once, not after minutes of trying."""

from __future__ import annotations

from kvcm_platform.client.cli import main
from tests.support.platform_process import free_ports


def test_nobody_listens(tmp_path, capsys) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n')
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    arguments = ["replay", "--trace", str(trace), "--format", "mooncake", "--endpoint", endpoint]
    assert main(arguments) == 1
    told = capsys.readouterr().err
    assert endpoint in told
    assert "refused" in told
