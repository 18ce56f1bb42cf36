"""Jobs of the optimizer carried out in the test's own process, and traces to carry them out on."""

from __future__ import annotations

import io
import json
from typing import Any

from rest_framework.test import APIClient

from apps.optimizer_reports.services.carrying import Work, jobs_work
from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis.order import Order, packed

MEMORY_BYTES = 4 << 30


class JobHere:
    """Stands in for `JobProcess`: the same work at once, without the second that a process takes to start."""

    peak_bytes = 1

    def __init__(self, order: Order) -> None:
        # On use: compiled code is loaded by the tests that need it.
        from kvcm_platform.optimizer.analysis.reading import generate_trace, read_trace
        from kvcm_platform.optimizer.analysis.work import analyse

        self.progress, self.failure, self.result = 0.0, "", None
        do = {"read": read_trace, "generate": generate_trace, "analyse": analyse}[order.do]
        try:
            self.result = packed(do(json.loads(json.dumps(order.arguments)), self._tell))
        except DomainError as error:
            self.failure = error.message

    def _tell(self, share: float) -> None:
        self.progress = share

    def wait(self, seconds: float) -> bool:
        return True

    def kill(self) -> None:
        pass


def work() -> Work:
    """Until no job waits."""
    return jobs_work(memory_bytes=MEMORY_BYTES, round_seconds=600)


def mooncake_lines(chains: list[list[int]], *, step_ms: int = 1000, block_tokens: int = 512) -> bytes:
    """A Mooncake trace of full blocks, one request a chain."""
    rows = (
        {
            "timestamp": number * step_ms,
            "input_length": block_tokens * len(chain),
            "output_length": 1,
            "hash_ids": chain,
        }
        for number, chain in enumerate(chains)
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def upload(client: APIClient, content: bytes, *, name: str = "trace.jsonl", **fields: Any) -> Any:
    """The answer to an upload."""
    source = io.BytesIO(content)
    source.name = name
    return client.post("/api/v1/optimizer/traces/", {"file": source, **fields}, format="multipart")


def ready_trace(client: APIClient, content: bytes, **fields: Any) -> dict[str, Any]:
    """Uploaded, and read."""
    answer = upload(client, content, **fields)
    assert answer.status_code == 201, answer.content
    work()
    trace = client.get(f"/api/v1/optimizer/traces/{answer.data['id']}/").data
    assert trace["state"] == "ready", trace["reason"]
    return trace
