"""Replay of a trace by several engines at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from kvcm_platform.core.traces import TraceError, TraceRequest
from kvcm_platform.transfer import TransferOptions, Transfers

from ..channel import ClientTls
from ..types import Registration
from .data import TRANSFER_SECONDS, BlockData
from .engine import (
    PATIENCE_SECONDS,
    CallFailedError,
    Engine,
    GaveUpError,
    OnError,
    engine_connection,
    storages_again,
)
from .report import Report

SPEC_NAME = "tp0"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`speed`: trace seconds per second, 0 = as fast as the engines go. `data_root`: see FileTransfer."""

    endpoint: str
    instance_group: str
    instance_id: str
    block_tokens: int
    block_bytes: int
    engines: int = 1
    speed: float = 0.0
    with_data: bool = False
    data_root: Path | None = None
    token: str = ""
    tls: ClientTls | None = None
    patience_seconds: float = PATIENCE_SECONDS


class ReplayError(Exception):
    """The replay could not go to its end. `report` holds what was done until then."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class Replay:
    """One run. `stop` ends it early, from any thread, after the prompts under way."""

    def __init__(
        self,
        options: ReplayOptions,
        requests: Iterator[TraceRequest],
        *,
        on_request: Callable[[], object] = lambda: None,
        on_error: OnError | None = None,
    ) -> None:
        self._options = options
        self._feed = _Feed(requests, options.speed)
        self._on_request = on_request
        self._on_error = on_error

    def stop(self) -> None:
        self._feed.stopped.set()

    def run(self) -> Report:
        """Registers the instance and plays the trace. Raises ReplayError if it cannot be finished."""
        options = self._options
        registration = Registration(
            instance_group=options.instance_group,
            instance_id=options.instance_id,
            block_size=options.block_tokens,
            location_spec_infos=(LocationSpecInfo(SPEC_NAME, options.block_bytes),),
            model_deployment=ModelDeployment(model_name="replay", dtype="bf16", tp_size=1),
        )
        connection = engine_connection(options.endpoint, options.token, options.tls)
        transfers = Transfers(
            options=TransferOptions(
                root=options.data_root, threads=min(16, 2 + options.engines), call_seconds=TRANSFER_SECONDS
            ),
            reload=storages_again(connection, registration),
        )
        data = None
        if options.with_data:
            data = BlockData(transfers, options.instance_id, registration.location_spec_infos)
        engines = [
            Engine(
                connection,
                registration,
                data=data,
                patience_seconds=options.patience_seconds,
                stop=self._feed.stopped,
                on_error=self._on_error,
            )
            for _ in range(options.engines)
        ]
        started = time.perf_counter()
        try:
            self._play(engines)
        finally:
            for engine in engines:
                engine.close()
            transfers.close()
        total = Report(seconds=time.perf_counter() - started)
        for engine in engines:
            total.add(engine.report)
        if self._feed.failure is not None:
            raise ReplayError(str(self._feed.failure), total) from self._feed.failure
        return total

    def _play(self, engines: list[Engine]) -> None:
        try:
            engines[0].register()
        except (CallFailedError, GaveUpError) as error:
            self._feed.fail(error)
            return
        self._feed.begin()
        threads = [threading.Thread(target=self._drive, args=(engine,)) for engine in engines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _drive(self, engine: Engine) -> None:
        try:
            for keys in self._feed:
                try:
                    engine.serve(keys)
                except CallFailedError:
                    continue
                finally:
                    self._on_request()
        except (GaveUpError, TraceError, OSError, ValueError) as error:
            self._feed.fail(error)


class _Feed:
    """The trace's prompts, handed out in order and not before their time. For many threads."""

    def __init__(self, requests: Iterator[TraceRequest], speed: float) -> None:
        self.stopped = threading.Event()
        self.failure: Exception | None = None
        self._requests = requests
        self._speed = speed
        self._began = 0.0
        self._first_at: float | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """The first prompt is due now."""
        self._began = time.monotonic()

    def fail(self, error: Exception) -> None:
        """Ends the feed for everybody."""
        with self._lock:
            self.failure = self.failure or error
        self.stopped.set()

    def __iter__(self) -> Iterator[list[int]]:
        while not self.stopped.is_set():
            with self._lock:
                request = next(self._requests, None)
                if request is None:
                    return
                if self._first_at is None:
                    self._first_at = request.at_seconds
            if self._speed > 0:
                due = self._began + (request.at_seconds - self._first_at) / self._speed
                if self.stopped.wait(max(0.0, due - time.monotonic())):
                    return
            yield request.block_keys
