"""The commands and their options. `run` is the module and function that carries a command out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn, TypeAlias

from ..analysis.formats import FORMATS
from ..analysis.known_policies import KNOWN_POLICIES
from ..curve import Events, Touch, Unit
from ..roi.models import PRESETS

_CAPACITIES = "comma-separated: blocks (5000), a share of the distinct blocks (10%%), or a size (64GiB)"

_MOST_SECONDS = 1e11
"""As microseconds it fits 64 bits, with the time of any request added."""


class _Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message} (--help tells more)\n")
        sys.exit(2)


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="optimizer",
        description="Replays traces: what capacity and policy are worth. "
        "Answers go to stdout, progress to stderr.",
    )
    commands = top.add_subparsers(dest="command", required=True, parser_class=_Parser)
    _ingest(commands)
    _curve(commands)
    _simulate(commands)
    _compare(commands)
    _roi(commands)
    _report(commands)
    _anonymize(commands)
    _generate(commands)
    return top


def _ingest(commands: _Commands) -> None:
    command = commands.add_parser("ingest", help="read a trace into columns, once")
    _source_options(command)
    _output_options(command)
    command.add_argument("--out", type=Path, required=True, help="the new directory of the columns")
    command.add_argument("--parquet", type=Path, help="also write the trace as one Parquet file")
    command.set_defaults(run="traces.ingest_trace")


def _curve(commands: _Commands) -> None:
    command = commands.add_parser("curve", help="hit rate at every capacity, in one pass")
    _trace_options(command)
    _output_options(command)
    command.add_argument("--policy", choices=("lru", "ttl"), default="lru")
    _capacity_options(command, "default: every capacity, 128 points of each doubling")
    command.add_argument("--ttls", help="for ttl: comma-separated seconds (default: up to the trace's span)")
    command.add_argument("--bound", action="store_true", help="also the clairvoyant bound (policy belady)")
    command.add_argument(
        "--tiers", help="two tiers from the same pass: comma-separated pairs of capacities, 512GiB+4TiB"
    )
    command.add_argument("--quota", help="mark a capacity: blocks, a share or a size")
    _file_options(command)
    command.set_defaults(run="curve.show")


def _simulate(commands: _Commands) -> None:
    command = commands.add_parser(
        "simulate", help="hits of policies at capacities; with --json one object a line"
    )
    _trace_options(command)
    _output_options(command)
    _policy_options(command, "lru")
    _capacity_options(command, "default: 20 of them, up to all distinct blocks")
    command.set_defaults(run="simulate.show")


def _compare(commands: _Commands) -> None:
    command = commands.add_parser(
        "compare", help="policies side by side, with the clairvoyant bound (policy belady)"
    )
    _trace_options(command)
    _output_options(command)
    _policy_options(command, "lru,lfu,s3_fifo,sieve,fifo")
    _capacity_options(command, "default: 20 of them, up to all distinct blocks")
    command.add_argument("--quota", help="mark a capacity: blocks, a share or a size")
    _file_options(command)
    command.set_defaults(run="compare.show")


def _roi(commands: _Commands) -> None:
    command = commands.add_parser("roi", help="what a cache saves and costs, and the best capacity")
    _trace_options(command)
    _output_options(command)
    _capacity_options(command, "default: every capacity, 128 points of each doubling")
    _cost_options(command)
    command.add_argument(
        "--by",
        choices=("instance", "type"),
        help="rank instances or types of requests, each with a cache of its own",
    )
    command.set_defaults(run="worth.show")


def _report(commands: _Commands) -> None:
    command = commands.add_parser(
        "report", help="a directory with report.html, curves.png, curves.csv, report.json"
    )
    _trace_options(command)
    _output_options(command)
    command.add_argument("--out", type=Path, required=True, help="the directory, made if missing")
    command.add_argument("--title", help="default: the name of the trace")
    _policy_options(command, "lru,s3_fifo")
    _capacity_options(command, "of policies other than lru; default: 20 of them")
    _cost_options(command)
    command.add_argument("--quota", help="mark a capacity: blocks, a share or a size")
    command.add_argument("--prefixes", type=_count, default=30, help="hot prefixes shown (default 30)")
    command.set_defaults(run="report.write")


def _anonymize(commands: _Commands) -> None:
    command = commands.add_parser("anonymize", help="replace prompts or block keys by keyed block hashes")
    command.add_argument("--trace", type=Path, required=True, help="prompts (text or tokens), or a trace")
    command.add_argument("--format", choices=list(FORMATS), help="of a trace; default: detected")
    command.add_argument("--out", type=Path, required=True, help="the new file")
    command.add_argument(
        "--output",
        choices=("optimizer_schema", "mooncake"),
        help="default: mooncake for a trace that is like Mooncake's, else optimizer_schema",
    )
    command.add_argument(
        "--salt-file",
        type=Path,
        help="the key of the hashes, kept secret; default: one that nobody keeps, so no other trace fits",
    )
    command.add_argument("--block-tokens", type=_count, help="tokens of a block (prompts: 16)")
    command.add_argument("--keep-names", action="store_true", help="of instances and types")
    command.add_argument("--keep-times", action="store_true", help="else they count from the first request")
    command.add_argument("--max-bad-lines", type=_natural, default=100, help="more of them refuse the file")
    _output_options(command)
    command.set_defaults(run="traces.anonymize_trace")


def _generate(commands: _Commands) -> None:
    command = commands.add_parser("generate", help="make a trace of sessions, for speed and a look around")
    command.add_argument("--requests", type=_count, required=True, help="about 25 blocks each")
    command.add_argument("--out", type=Path, required=True, help="the new directory of the columns")
    command.add_argument("--parquet", type=Path, help="also write the trace as one Parquet file")
    command.add_argument("--seed", type=_natural, default=0)
    command.add_argument("--instances", type=_count, default=1)
    command.add_argument("--block-tokens", type=_count, default=512)
    command.add_argument("--block-bytes", type=_count)
    _output_options(command)
    command.set_defaults(run="traces.generate_trace")


def _source_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--trace", type=Path, required=True, help="a trace's file (plain, gz or zst)")
    command.add_argument("--format", choices=list(FORMATS), help="default: detected")
    command.add_argument(
        "--one-namespace", action="store_true", help="all instances share blocks with equal keys"
    )
    command.add_argument(
        "--as-turns",
        action="store_true",
        default=None,
        help="reads and writes of an event log become turns, which curves need",
    )
    command.add_argument("--block-tokens", type=_count, help="tokens of a block, whatever the trace says")
    command.add_argument("--block-bytes", type=_count, help="bytes of a block, likewise")
    command.add_argument("--max-bad-lines", type=_natural, default=100, help="more of them refuse the trace")


def _trace_options(command: argparse.ArgumentParser) -> None:
    _source_options(command)
    command.add_argument("--cache", help="where read traces are kept (default: the user's cache directory)")
    command.add_argument("--instance", action="append", help="only this instance; may be repeated")
    command.add_argument("--type", action="append", help="only this type of requests; may be repeated")
    command.add_argument("--begin", type=_seconds, help="only from this second of the trace on")
    command.add_argument("--end", type=_seconds, help="only up to this second of the trace")


def _output_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="JSON on stdout instead of text")
    command.add_argument("--quiet", action="store_true", help="no bars and notes on stderr")


def _capacity_options(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("--capacities", help=f"{_CAPACITIES}; {default}")
    command.add_argument("--unit", choices=[str(unit) for unit in Unit], default=str(Unit.BLOCKS))
    command.add_argument(
        "--touch",
        choices=[str(touch) for touch in Touch],
        default=str(Touch.DEEP),
        help="which block of a request is used first (default: the deepest)",
    )


def _policy_options(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument(
        "--policy",
        dest="policies",
        default=default,
        help=f"comma-separated, of {', '.join(n for n in KNOWN_POLICIES if n != 'ttl')} (default {default})",
    )
    command.add_argument("--events", choices=[str(events) for events in Events], default=str(Events.TURN))
    command.add_argument(
        "--delay", type=_seconds, default=0.0, help="seconds until a turn's blocks are written"
    )
    command.add_argument("--seed", type=_natural, default=0, help="of policies that draw")
    command.add_argument(
        "--parameter",
        action="append",
        metavar="NAME=VALUE",
        help="of every policy that has it (small_ratio=0.2, batch_size=10, ...); may be repeated",
    )


def _file_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--png", type=Path, help="write the picture")
    command.add_argument("--dark", action="store_true", help="the picture in dark colours")
    command.add_argument("--csv", type=Path, help="write the points")
    command.add_argument("--html", type=Path, help="write a standalone page")


def _cost_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cost-model", type=Path, help="a JSON file with a cost model (docs/optimizer.md)")
    command.add_argument("--model", help=f"one of {', '.join(PRESETS)}")
    command.add_argument("--gpu-hour-price", type=float)
    command.add_argument("--effective-flops", type=float, help="FLOP/s of one GPU in prefill, as reached")
    command.add_argument("--prefill-tokens-per-second", type=float, help="of one GPU, as measured")
    command.add_argument("--measured-prompt-tokens", type=_count, help="length of the prompts measured with")
    command.add_argument("--gpus-per-engine", type=_count)
    command.add_argument("--peak-ratio", type=float, help="load of the busiest time to the mean")
    command.add_argument("--currency")
    command.add_argument(
        "--tier",
        action="append",
        help="NAME:PRICE[:GBPS[:MS[:SIZE]]]: price of a GiB-month, GB/s, latency, capacity; may be repeated",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not abs(value) <= _MOST_SECONDS:  # Not a number is not either.
        raise argparse.ArgumentTypeError(f"between -{_MOST_SECONDS:g} and {_MOST_SECONDS:g} seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("not negative")
    return value
