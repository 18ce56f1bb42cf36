"""The process that holds one client of Mooncake's store. Run as a program by `mooncake_child`.

The C++ client logs, blocks for half a minute where its master is silent, keeps Python's lock while
it connects and may abort; here that ends nobody else. Whoever started it kills it when a call takes
too long, and it ends with its parent. It imports nothing of the platform: it must start fast.

Arguments: descriptor of a socket to the parent, descriptor of the shared buffer, bytes of the
buffer, the parent's process id. Messages are JSON, one a frame of `multiprocessing.connection`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1
_CLOSE_SECONDS = 2
_LOCAL_BUFFER_BYTES = 0
"""All bytes go through the shared buffer, so the client needs none of its own."""


def main() -> None:
    socket, buffer, size, parent = (int(argument) for argument in sys.argv[1:5])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The parent may have died before the call above; the signal would never come.
    if os.getppid() != parent:
        return
    # Ctrl-C reaches the whole group; the parent ends this process when it is done with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Connection(socket)
    try:
        settings = json.loads(link.recv_bytes())
        try:
            server = _Server(link, settings, mmap.mmap(buffer, size) if size else None)
        except _Unusable as error:
            link.send_bytes(json.dumps({"refusal": str(error)}).encode())
            return
        link.send_bytes(json.dumps({"ready": True}).encode())
        server.serve()
    except (EOFError, OSError):
        # The parent closed its end, or died.
        return


class _Unusable(Exception):
    """Why there is no store client."""


class _Server:
    def __init__(self, link: Connection, settings: dict[str, Any], buffer: mmap.mmap | None) -> None:
        self._link = link
        self._sending = threading.Lock()
        try:
            from mooncake.store import MooncakeDistributedStore, ReplicateConfig
        except ImportError as error:
            raise _Unusable(_why_not_loaded(str(error))) from error
        self._store = MooncakeDistributedStore()
        code = self._store.setup(
            settings["local_hostname"],
            settings["metadata_connstring"],
            0,
            _LOCAL_BUFFER_BYTES,
            settings["protocol"],
            settings["rdma_device"],
            settings["master_service_entry"],
        )
        if code != 0:
            way = f"{settings['protocol']} {settings['rdma_device']}".rstrip()
            raise _Unusable(f"the store's client could not be set up over {way}: code {code}")
        self._plain = ReplicateConfig()
        self._pinned = ReplicateConfig()
        self._pinned.with_hard_pin = True
        self._buffer = buffer
        self._address = 0
        if buffer is not None:
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
            code = self._store.register_buffer(self._address, len(buffer))
            if code != 0:
                raise _Unusable(f"the transfer buffer could not be registered: code {code}")
        self._threads = ThreadPoolExecutor(settings["threads"])

    def serve(self) -> None:
        """Until the parent closes its end."""
        while True:
            try:
                request = json.loads(self._link.recv_bytes())
            except EOFError:
                break
            self._threads.submit(self._answer, request)
        # A silent master would hold this up; the signal's default ends the process.
        signal.alarm(_CLOSE_SECONDS)
        self._store.close()
        os._exit(0)

    def _answer(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["codes"] = [int(code) for code in self._run(request)]
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
            answer["error"] = repr(error)
        with self._sending:
            self._link.send_bytes(json.dumps(answer).encode())

    def _run(self, request: dict[str, Any]) -> Iterable[int]:
        verb, keys, store = request["verb"], request["keys"], self._store
        codes: Iterable[int]
        if verb == "exist":
            codes = store.batch_is_exist(keys)
        elif verb == "remove":
            codes = store.batch_remove(keys, request.get("is_forced", False))
        elif verb == "put":
            kind = self._pinned if request.get("is_pinned") else self._plain
            codes = store.batch_put_from(keys, self._places(request), request["sizes"], kind)
        elif verb == "get":
            codes = store.batch_get_into(keys, self._places(request), request["sizes"])
        else:
            raise ValueError(f"unknown verb {verb!r}")
        return codes

    def _places(self, request: dict[str, Any]) -> list[int]:
        return [self._address + offset for offset in request["offsets"]]


def _why_not_loaded(said: str) -> str:
    if "libibverbs" in said:
        return "Mooncake's client needs the system library libibverbs.so.1 (Debian: libibverbs1)"
    if "mooncake" in said:
        return "Mooncake's client is not installed: there are packages for Linux on x86_64 and aarch64 only"
    return f"Mooncake's client cannot be loaded: {said}"


if __name__ == "__main__":
    main()
