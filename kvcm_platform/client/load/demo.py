"""The demonstration: several models in use at once, at a gentle rate, until stopped."""

from __future__ import annotations

import heapq
import itertools
import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from kvcm_platform.transfer import TransferOptions, Transfers

from ..channel import ClientTls, Connection
from ..types import Registration
from .data import TRANSFER_SECONDS, BlockData
from .engine import CallFailedError, Engine, GaveUpError, OnError, engine_connection, storages_again
from .report import Report
from .workload import Habits, Session, Workload

CALLS_PER_TURN = 3
SUMMARY_SECONDS = 30.0
_RETRY_SECONDS = 2.0
_HOPELESS_SECONDS = 30.0
_TIDE_SECONDS = 600.0
_TIDE_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class DemoModel:
    """One deployment that the demonstration pretends to run."""

    instance_id: str
    deployment: ModelDeployment
    specs: tuple[LocationSpecInfo, ...]
    block_tokens: int
    habits: Habits


MODELS: tuple[DemoModel, ...] = (
    DemoModel(
        "qwen3-32b-chat",
        ModelDeployment("Qwen3-32B", "fp8", tp_size=2, dp_size=1, pp_size=1),
        (LocationSpecInfo("tp0", 4096), LocationSpecInfo("tp1", 4096)),
        64,
        Habits(system_prompts=12, system_blocks=10, turns=5, think_seconds=10),
    ),
    DemoModel(
        "deepseek-v3-agent",
        ModelDeployment("DeepSeek-V3", "fp8", use_mla=True, tp_size=1, dp_size=1, pp_size=1),
        (LocationSpecInfo("mla", 4096),),
        128,
        Habits(system_prompts=6, system_blocks=60, turns=14, question_blocks=6, think_seconds=4),
    ),
    DemoModel(
        "qwen3-coder-30b",
        ModelDeployment("Qwen3-Coder-30B-A3B", "bf16", tp_size=1, dp_size=1, pp_size=1),
        (LocationSpecInfo("tp0", 8192),),
        64,
        Habits(system_prompts=4, system_blocks=40, turns=10, question_blocks=8, think_seconds=6),
    ),
    DemoModel(
        "llama-3.3-70b-rag",
        ModelDeployment("Llama-3.3-70B", "bf16", tp_size=2, dp_size=1, pp_size=1),
        (LocationSpecInfo("tp0", 4096), LocationSpecInfo("tp1", 4096)),
        32,
        Habits(system_prompts=60, system_blocks=30, turns=2, think_seconds=12),
    ),
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`calls_per_second`: of all engines together, on average. `data_root`: see FileTransfer."""

    endpoint: str
    engines: int = 4
    calls_per_second: float = 40.0
    instance_group: str = "default"
    data_root: Path | None = None
    token: str = ""
    tls: ClientTls | None = None


class Demo:
    """Engine n runs model n mod 4. The load swells and ebbs by 40 % over ten minutes."""

    def __init__(
        self,
        options: DemoOptions,
        *,
        on_error: OnError | None = None,
        on_summary: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._options = options
        self._on_error = on_error
        self._on_summary = on_summary
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends the run after the prompts under way; from any thread or a signal handler."""
        self._stop.set()

    def run(self) -> Report:
        """Runs until `stop`. Servers that are away are waited for without end."""
        options = self._options
        transfers = Transfers(
            options=TransferOptions(
                root=options.data_root, threads=2 * options.engines, call_seconds=TRANSFER_SECONDS
            ),
            reload=storages_again(self._connection(), self._registration(0)),
        )
        engines = [self._engine(number, transfers) for number in range(options.engines)]
        started = time.monotonic()
        threads = [
            threading.Thread(target=self._drive, args=(number, engine))
            for number, engine in enumerate(engines)
        ]
        for thread in threads:
            thread.start()
        while not self._stop.wait(SUMMARY_SECONDS):
            self._on_summary(_summary(_total(engines)))
        for thread in threads:
            thread.join()
        for engine in engines:
            engine.close()
        transfers.close()
        report = _total(engines)
        report.seconds = time.monotonic() - started
        self._on_summary(_summary(report))
        return report

    def _connection(self) -> Connection:
        return engine_connection(self._options.endpoint, self._options.token, self._options.tls)

    def _registration(self, number: int) -> Registration:
        model = MODELS[number % len(MODELS)]
        return Registration(
            instance_group=self._options.instance_group,
            instance_id=model.instance_id,
            block_size=model.block_tokens,
            location_spec_infos=model.specs,
            model_deployment=model.deployment,
        )

    def _engine(self, number: int, transfers: Transfers) -> Engine:
        registration = self._registration(number)
        return Engine(
            self._connection(),
            registration,
            data=BlockData(transfers, registration.instance_id, registration.location_spec_infos),
            patience_seconds=math.inf,
            stop=self._stop,
            on_error=self._on_error,
            keep_latencies=False,
        )

    def _drive(self, number: int, engine: Engine) -> None:
        model_number = number % len(MODELS)
        habits = MODELS[model_number].habits
        workload = Workload(model_number, secrets.randbits(32), habits)
        turns_per_second = self._options.calls_per_second / CALLS_PER_TURN / self._options.engines
        crowd = max(1, round(turns_per_second * habits.think_seconds))
        # With few sessions the rate comes from the pauses, not from the number of sessions.
        stretch = crowd / (turns_per_second * habits.think_seconds)
        began = time.monotonic()
        order = itertools.count()
        due: list[tuple[float, int, Session]] = []
        for _ in range(crowd):
            session = workload.new_session()
            heapq.heappush(due, (began + session.pause_seconds() * stretch, next(order), session))
        self._register(engine)
        while due and not self._stop.is_set():
            at, _, session = heapq.heappop(due)
            if self._stop.wait(max(0.0, at - time.monotonic())):
                return
            keys = session.next_turn()
            if keys is not None:
                self._serve(engine, keys)
            if keys is None or session.is_over():
                session = workload.new_session()
            now = time.monotonic()
            tide = 1 + _TIDE_SHARE * math.sin(2 * math.pi * (now - began) / _TIDE_SECONDS)
            heapq.heappush(due, (now + session.pause_seconds() * stretch / tide, next(order), session))

    def _register(self, engine: Engine) -> None:
        while not self._stop.is_set():
            try:
                engine.register()
            except CallFailedError:
                self._stop.wait(_RETRY_SECONDS)
            except GaveUpError:
                self._stop.wait(_HOPELESS_SECONDS)
            else:
                return

    def _serve(self, engine: Engine, keys: list[int]) -> None:
        try:
            engine.serve(keys)
        except GaveUpError:
            self._stop.wait(_HOPELESS_SECONDS)
        except CallFailedError as error:
            # Removed in the UI, or the index is new: an engine would register when it restarts.
            if error.code == "INSTANCE_NOT_EXIST":
                self._register(engine)


def _total(engines: list[Engine]) -> Report:
    total = Report()
    for engine in engines:
        total.add(engine.report)
    return total


def _summary(report: Report) -> str:
    return (
        f"{report.requests:,} prompts, {report.blocks:,} blocks asked, hit rate {report.hit_rate:.3f}, "
        f"{report.written_blocks:,} written, {report.write_refused:,} refused, {report.errors:,} errors, "
        f"{report.bytes_wrong:,} wrong bytes, {report.failed_reads:,} failed reads"
    )
