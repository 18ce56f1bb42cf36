"""A grpcio server whose handlers do nothing: `python -m tests.bench.empty_grpcio PORT`.

`Empty` answers with nothing, `Same` with as many bytes as a match of the request's keys has.
"""

from __future__ import annotations

import sys

import grpc
import uvloop

from kvcm_platform.metadata_service.limits import DoorLimits
from kvcm_platform.metadata_service.transports.grpcio import server_options

BLOCK_BYTES = 125
"""Of an answer, a block: one spec with a URI of about 110 bytes."""
KEY_BYTES = 9


async def main(port: int) -> None:
    answers: dict[int, bytes] = {}

    async def empty(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return b""

    async def same(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        size = len(request) // KEY_BYTES * BLOCK_BYTES
        answer = answers.get(size)
        if answer is None:
            answer = answers[size] = bytes(size)
        return answer

    handlers = {
        name: grpc.unary_unary_rpc_method_handler(f) for name, f in (("Empty", empty), ("Same", same))
    }
    server = grpc.aio.server(options=server_options(DoorLimits()))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
