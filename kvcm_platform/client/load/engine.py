"""One simulated engine: what a real one asks and saves for each prompt, without the model."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kvcm_platform.core.storage_configs import StorageDescription

from .. import calls
from ..blocking import BlockingMetadataClient
from ..calls import Call
from ..channel import ClientTls, Connection, RetryPolicy
from ..errors import KvcmError, TransportError
from ..types import Registration
from .data import BlockData
from .report import Report

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
_CALL_SECONDS = 30.0
_RELOAD_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0

PASSING = frozenset({"SERVICE_NOT_READY", "SERVER_NOT_LEADER"})
"""Refusals that end by themselves while a server restarts or hands over."""
HOPELESS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"})
"""gRPC statuses that every further call would meet as well."""
REFUSED = "REACH_MAX_ENTITY_CAPACITY"

OnError = Callable[[str, KvcmError], None]


class GaveUpError(Exception):
    """The server stayed away too long, or lets nobody in."""


class CallFailedError(Exception):
    """A call that failed and was counted; its prompt is left and the next one begins."""

    def __init__(self, error: KvcmError) -> None:
        super().__init__(str(error))
        self.code = error.code


class Engine:
    """Serves prompts one after the other. Owned by one thread; `stop` may come from any.

    A call that meets a server going down is counted as one error and repeated until the server is
    back, for at most `patience_seconds`. Calls made while it is away wait for it and are no
    errors. `keep_latencies` costs 8 bytes a call.
    """

    def __init__(
        self,
        connection: Connection,
        registration: Registration,
        *,
        data: BlockData | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        stop: threading.Event | None = None,
        on_error: OnError | None = None,
        keep_latencies: bool = True,
    ) -> None:
        self.report = Report()
        self._keep_latencies = keep_latencies
        self.registration = registration
        self._instance_id = registration.instance_id
        self._client = BlockingMetadataClient(connection)
        self._data = data
        self._patience_seconds = patience_seconds
        self._stop = stop or threading.Event()
        self._on_error = on_error

    def register(self) -> None:
        """Raises CallFailedError if the server refuses the registration."""
        storages = self._call(calls.register_instance(self.registration))
        if self._data is not None:
            self._data.know(storages)

    def serve(self, keys: list[int]) -> None:
        """One prompt: match its prefix, read what is there, save what is missing.

        Raises CallFailedError for a call that failed, with the prompt half served.
        """
        self.report.requests += 1
        self.report.blocks += len(keys)
        if not keys:
            return
        found = self._call(calls.get_cache_location(self._instance_id, keys))
        self.report.hit_blocks += len(found)
        if self._data is not None and len(found):
            checked = self._data.check(keys[: len(found)], found)
            self.report.bytes_read += checked.bytes_read
            self.report.bytes_wrong += checked.bytes_wrong
            self.report.failed_reads += checked.failed_reads
        self._save(keys)

    def close(self) -> None:
        self._client.close()

    def _save(self, keys: list[int]) -> None:
        try:
            started = self._call(calls.start_write(self._instance_id, keys), expected=REFUSED)
        except KvcmError:
            self.report.write_refused += 1
            return
        success = [True] * len(started.locations)
        if self._data is not None and success:
            written_keys = [keys[index] for index in started.to_write_indexes]
            success, written = self._data.write(written_keys, started.locations)
            self.report.bytes_written += written
            self.report.errors += success.count(False)
        self._call(calls.finish_write(self._instance_id, started.session_id, success))
        self.report.written_blocks += success.count(True)

    def _call(self, call: Call[T], *, expected: str = "") -> T:
        """Make a call, through restarts of the server. Only the `expected` refusal is raised as it is."""
        failed_at: float | None = None
        failures = 0
        while True:
            started = time.perf_counter()
            try:
                result = self._client.run(call)
            except KvcmError as error:
                if not isinstance(error, TransportError):
                    self._note(call, started)
                    if error.code == expected:
                        raise
                if failed_at is None:
                    failed_at = time.monotonic()
                    self.report.errors += 1
                    if self._on_error is not None:
                        self._on_error(call.rpc, error)
                failures += 1
                self._pause_or_raise(error, failed_at, failures)
            else:
                self._note(call, started)
                return result

    def _note(self, call: Call[T], started: float) -> None:
        if self._keep_latencies:
            self.report.latencies[call.rpc].append(time.perf_counter() - started)

    def _pause_or_raise(self, error: KvcmError, failed_at: float, failures: int) -> None:
        is_transport = isinstance(error, TransportError)
        if is_transport and error.code in HOPELESS:
            raise GaveUpError(str(error)) from error
        if error.code == "RESOURCE_EXHAUSTED" or not (is_transport or error.code in PASSING):
            raise CallFailedError(error) from error
        waited = time.monotonic() - failed_at
        if waited > self._patience_seconds:
            raise GaveUpError(f"no answer for {waited:.0f} seconds: {error}") from error
        ceiling = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(failures, 10))
        if self._stop.wait(random.uniform(0, ceiling)):  # noqa: S311 - spreads load, guards nothing
            raise CallFailedError(error) from error


def storages_again(
    connection: Connection, registration: Registration
) -> Callable[[], tuple[StorageDescription, ...] | None]:
    """Asks what storages there are now by registering once more; None where no answer comes in time."""

    def ask() -> tuple[StorageDescription, ...] | None:
        try:
            with BlockingMetadataClient(connection) as client:
                return client.run(calls.register_instance(registration), timeout_seconds=_RELOAD_SECONDS)
        except KvcmError:
            return None

    return ask


def engine_connection(endpoint: str, token: str, tls: ClientTls | None) -> Connection:
    """How engines connect: calls wait for an absent server, and nothing is repeated unseen."""
    return Connection(
        endpoint,
        token=token,
        timeout_seconds=_CALL_SECONDS,
        retry=RetryPolicy(attempts=1),
        wait_for_ready=True,
        credentials=tls.credentials() if tls else None,
        server_name=tls.server_name if tls else "",
    )
