"""The command line: arguments in, progress on stderr, the report on stdout."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import orjson
from tqdm import tqdm  # type: ignore[import-untyped]

from kvcm_platform.core.traces import BLOCK_TOKENS, BadLine, TraceFormat, TraceRequest, open_trace

from .channel import ClientTls
from .errors import KvcmError
from .load.demo import Demo, DemoOptions
from .load.replay import Replay, ReplayError, ReplayOptions
from .load.report import Report

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """0 = done; 1 = could not be finished, or hit blocks were not as written; 130 = stopped by a signal."""
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _replay(options: argparse.Namespace) -> int:
    if not _is_listening(options.endpoint):
        return 1
    trace_format = TraceFormat(options.format)
    is_silent = options.json and not sys.stderr.isatty()
    total = _count_requests(options.trace, trace_format, options.limit)
    with tqdm(total=total, unit="req", file=sys.stderr, disable=is_silent, smoothing=0.1) as bar:
        told = _Console(bar)
        replay = Replay(
            ReplayOptions(
                endpoint=options.endpoint,
                instance_group=options.group,
                instance_id=options.instance,
                block_tokens=BLOCK_TOKENS[trace_format],
                block_bytes=options.block_bytes,
                engines=options.engines,
                speed=options.speed,
                with_data=options.with_data,
                data_root=options.data_dir,
                token=options.token,
                tls=_tls(options),
            ),
            _requests(options, trace_format, told.bad_line),
            on_request=told.progress,
            on_error=told.failed_call,
        )
        was_stopped = _stop_on_signals(replay.stop)
        failure = ""
        try:
            report = replay.run()
        except ReplayError as error:
            report, failure = error.report, str(error)
    _print(report, as_json=options.json)
    if failure:
        sys.stderr.write(f"replay: {failure}\n")
    if was_stopped.is_set():
        return _INTERRUPTED
    if not failure and not report.requests:
        failure = f"{options.trace} holds no request of format {options.format}"
        sys.stderr.write(f"replay: {failure}\n")
    return 1 if failure or report.bytes_wrong or report.failed_reads else 0


def _demo(options: argparse.Namespace) -> int:
    demo = Demo(
        DemoOptions(
            endpoint=options.endpoint,
            engines=options.engines,
            calls_per_second=options.rate,
            instance_group=options.group,
            data_root=options.data_dir,
            token=options.token,
            tls=_tls(options),
        ),
        on_error=lambda rpc, error: _say(f"demo: {rpc}: {error}"),
        on_summary=lambda text: _say(f"demo: {text}"),
    )
    _stop_on_signals(demo.stop)
    if not _is_listening(options.endpoint):
        return 1
    report = demo.run()
    return 1 if report.bytes_wrong or report.failed_reads else 0


_CONNECT_SECONDS = 5.0


def _is_listening(endpoint: str) -> bool:
    """Whether something takes connections there; says so where nothing does."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        _say(f"no metadata service at {endpoint}: {error}. Name it with --endpoint HOST:PORT.")
        return False
    return True


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _print(report: Report, *, as_json: bool) -> None:
    text = orjson.dumps(report.to_dict()).decode() if as_json else report.to_text()
    sys.stdout.write(text + "\n")


def _requests(
    options: argparse.Namespace, trace_format: TraceFormat, on_bad_line: Callable[[BadLine], None]
) -> Iterator[TraceRequest]:
    return islice(open_trace(options.trace, trace_format, on_bad_line=on_bad_line), options.limit)


def _count_requests(path: Path, trace_format: TraceFormat, limit: int | None) -> int | None:
    """How long the bar should be; None where only reading the whole trace would tell."""
    if trace_format is TraceFormat.WEKA or path.suffix == ".gz":
        return limit
    with path.open("rb") as lines:
        return sum(1 for _ in islice(lines, limit))


class _Console:
    """The bar, and above it what went wrong; of each kind of failed call only the first few."""

    _SHOWN = 3

    def __init__(self, bar: tqdm[None]) -> None:
        self._bar = bar
        self._counts: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def progress(self) -> None:
        with self._lock:
            self._bar.update()

    def bad_line(self, bad: BadLine) -> None:
        self._bar.write(f"line {bad.number} skipped: {bad.reason}", file=sys.stderr)

    def failed_call(self, rpc: str, error: KvcmError) -> None:
        with self._lock:
            count = self._counts[rpc, error.code] = self._counts.get((rpc, error.code), 0) + 1
        if count <= self._SHOWN:
            more = " (further ones are only counted)" if count == self._SHOWN else ""
            self._bar.write(f"{rpc}: {error}{more}", file=sys.stderr)


def _stop_on_signals(stop: Callable[[], None]) -> threading.Event:
    """SIGTERM and Ctrl-C end the run in order, a second one at once. The event tells that one came."""
    came = threading.Event()

    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        came.set()
        # Not here: the handler interrupts code that may hold the very lock that `stop` needs.
        threading.Thread(target=stop).start()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return came


def _default_endpoint() -> str:
    """The metadata service of this host. The client is a program of its own and knows of the
    platform's settings no more than the port, which the supervisor hands down to the demo.
    """
    host = os.environ.get("KVCM_BIND", "")
    if host in {"", "0.0.0.0", "::", "localhost"}:  # noqa: S104 - where it listens, not where we do
        host = "127.0.0.1"
    port = os.environ.get("KVCM_META_RPC_PORT") or "6381"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(options: argparse.Namespace) -> ClientTls | None:
    if options.tls_ca is None:
        return None
    return ClientTls(options.tls_ca, options.tls_cert, options.tls_key, options.tls_name)


def _add_tls(parser: argparse.ArgumentParser) -> None:
    """Beside the platform, whose variables the supervisor hands down, its own files are the default."""
    ours = {name: os.environ.get(f"KVCM_TLS_{name}", "") for name in ("CERT", "KEY", "CA", "NAME")}
    is_asked = os.environ.get("KVCM_META_AUTH") == "mtls"

    def add(name: str, default: str, text: str) -> None:
        parser.add_argument(f"--tls-{name}", type=_existing_file, default=default or None, help=text)

    add("ca", ours["CA"] or ours["CERT"], "speak TLS; PEM file of who signed the server's certificate")
    add("cert", ours["CERT"] if is_asked else "", "PEM file of our certificate, if it is asked for")
    add("key", ours["KEY"] if is_asked else "", "PEM file of its private key")
    name = (ours["NAME"] or "localhost") if ours["CERT"] else ""
    parser.add_argument("--tls-name", default=name, help="name in its certificate, if not the endpoint's")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kvcm_platform.client", description="Simulated engines that make real calls."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--endpoint", default=_default_endpoint(), help="metadata service, default %(default)s"
    )
    shared.add_argument("--group", default="default", help="instance group, default %(default)s")
    shared.add_argument("--token", default="", help="API token, where the data plane asks for one")
    shared.add_argument(
        "--data-dir", type=Path, help="refuse to touch block files outside this folder; default: no limit"
    )

    _add_tls(shared)

    replay = commands.add_parser("replay", parents=[shared], help="play a trace and report what was hit")
    replay.add_argument("--trace", type=_existing_file, required=True, help="the trace, .gz or plain")
    replay.add_argument("--format", choices=[f.value for f in TraceFormat], required=True)
    replay.add_argument("--engines", type=_positive, default=1, help="concurrent engines, default 1")
    replay.add_argument(
        "--speed",
        type=_not_negative,
        default=0.0,
        help="times faster than recorded; 0 = as fast as possible (default)",
    )
    replay.add_argument("--limit", type=_positive, help="only the first so many requests")
    replay.add_argument("--instance", default="replay", help="instance id, default %(default)s")
    replay.add_argument("--block-bytes", type=_positive, default=4096, help="size of a block, default 4096")
    replay.add_argument(
        "--with-data", action="store_true", help="write the blocks' bytes and compare all read"
    )
    replay.add_argument("--json", action="store_true", help="print the report as one JSON object")
    replay.set_defaults(run=_replay)

    demo = commands.add_parser("demo", parents=[shared], help="agent-like load until SIGTERM")
    demo.add_argument("--engines", type=_positive, default=4, help="engines, default 4")
    demo.add_argument(
        "--rate", type=_above_zero, default=40.0, help="calls a second, all engines together, default 40"
    )
    demo.set_defaults(run=_demo)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def _above_zero(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
