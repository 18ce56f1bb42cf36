"""Traces that can be given away: nothing is left of a prompt but keyed hashes of its blocks.

Prompts (text or tokens) are cut into blocks and hashed with all that is before; a trace of any known format
keeps its blocks, whose keys are hashed once more. Names of instances and types become hashes unless they are
to stay, those of sessions always do; times count from the first request. Nothing else of a record is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import numpy as np
import orjson

from kvcm_platform.core.traces import BLOCK_TOKENS, TraceFormat
from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.trace import BadLine, Event, Trace

from .errors import TraceReadError, writable_as_a_whole
from .formats import SourceFormat
from .ingest import MAX_BAD_LINES, ingest
from .json_lines import json_objects
from .json_trace import OutputFormat, OutputRequest, to_line
from .keyed_hash import KeyedHash
from .progress import Throttle
from .prompts import Tokenize, is_prompt, prompt_of, words
from .source_lines import Lines, open_source
from .source_request import ONE_INSTANCE, BadLines

_LOOKED_AT = 20
_TELL_EVERY = 256


@dataclass(frozen=True, slots=True)
class Anonymized:
    """What was written, in the format `output`.

    `bad_lines` are the first ones left out, `bad_line_count` is their number.
    """

    requests: int
    blocks: int
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int
    output: OutputFormat


def anonymize(
    source: Path | str,
    target: Path | str,
    *,
    salt: bytes,
    output: OutputFormat | str | None = None,
    source_format: SourceFormat | str | None = None,
    block_tokens: int | None = None,
    keep_names: bool = False,
    keep_times: bool = False,
    tokenize: Tokenize = words,
    max_bad_lines: int = MAX_BAD_LINES,
    on_progress: Progress | None = None,
) -> Anonymized:
    """Writes `target` (lines of JSON) from prompts or from a trace; it appears when it is whole.

    Prompts are streamed, `tokenize` makes tokens of texts, blocks have `block_tokens` (16) tokens; Mooncake's
    format counts the partial last one. `output` None: Mooncake's format for a trace that has partial blocks
    and nothing that this format has no place for, the reference's schema for all else. `source_format` says
    that the source is a trace of that format.
    Raises TraceReadError (bad_option for what the output cannot hold), OSError, what `on_progress` raises.
    """
    source, target = Path(source), writable_as_a_whole(Path(target), "out")
    chosen, hashes = _checked(output, salt, block_tokens)
    partial = target.with_name(f".{target.name}.{token_hex(6)}.part")
    bad_lines = BadLines(max_bad_lines)
    try:
        with partial.open("wb") as file:
            writer = _Writer(file, chosen, hashes, keep_names=keep_names, keep_times=keep_times)
            if source_format is None and _holds_prompts(source):
                tell = Throttle(on_progress)
                _prompts(source, writer, block_tokens or 16, tokenize, bad_lines, tell)
                told = _told(writer, tuple(bad_lines.first), bad_lines.count)
            else:
                told = _trace(
                    source, writer, source_format, block_tokens, max_bad_lines, on_progress, target.parent
                )
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    if on_progress is not None:
        on_progress(1.0)
    return told


def _checked(
    output: OutputFormat | str | None, salt: bytes, block_tokens: int | None
) -> tuple[OutputFormat | None, KeyedHash]:
    try:
        chosen = None if output is None else OutputFormat(output)
    except ValueError:
        known = " and ".join(OutputFormat)
        raise TraceReadError("bad_option", f"output is {output}; known are {known}", field="output") from None
    if not salt:
        raise TraceReadError("bad_option", "the salt is empty", field="salt")
    if block_tokens is not None and block_tokens <= 0:
        raise TraceReadError(
            "bad_option", f"block_tokens must be positive, not {block_tokens}", field="block_tokens"
        )
    return chosen, KeyedHash(salt)


def _told(writer: _Writer, bad_lines: tuple[BadLine, ...], bad_line_count: int) -> Anonymized:
    return Anonymized(writer.requests, writer.blocks, bad_lines, bad_line_count, writer.output)


class _Writer:
    """Writes requests with hashed names, at times from the first one's on.

    `output` may be put off until the source is known, not beyond the first request.
    """

    def __init__(
        self,
        file: BinaryIO,
        output: OutputFormat | None,
        hashes: KeyedHash,
        *,
        keep_names: bool,
        keep_times: bool,
    ) -> None:
        self.output = output or OutputFormat.OPTIMIZER_SCHEMA
        self.is_output_open = output is None
        self.hashes = hashes
        self.requests = 0
        self.blocks = 0
        self._file = file
        self._keep_names = keep_names
        self._shift: int | None = 0 if keep_times else None

    def name(self, text: str, kind: str) -> str:
        return text if self._keep_names else self.hashes.name(text, kind)

    def write(self, request: OutputRequest) -> None:
        if self._shift is None:
            self._shift = request.at_us
        # A log may be a little out of order: nothing comes before its first request.
        request = replace(request, at_us=max(0, request.at_us - self._shift))
        self._file.write(to_line(request, self.output))
        self.requests += 1
        self.blocks += len(request.keys)


def _holds_prompts(source: Path) -> bool:
    with open_source(source) as opened:
        for count, (_, line) in enumerate(Lines(opened.stream)):
            if count >= _LOOKED_AT:
                return False
            try:
                record = orjson.loads(line or b"")
            except ValueError:
                continue
            if isinstance(record, dict):
                return is_prompt(record) and record.keys().isdisjoint(("trigger_time_us", "hash_ids"))
    return False


def _prompts(
    source: Path, writer: _Writer, block_tokens: int, tokenize: Tokenize, bad_lines: BadLines, tell: Throttle
) -> None:
    with_partial = writer.output is OutputFormat.MOONCAKE
    with open_source(source) as opened:
        lines = Lines(opened.stream)
        prompts = json_objects(lines, bad_lines, lambda number, record: prompt_of(number, record, tokenize))
        for count, (_, prompt) in enumerate(prompts):
            keys = writer.hashes.chain(prompt.tokens, block_tokens, with_partial=with_partial)
            writer.write(
                OutputRequest(
                    prompt.at_us,
                    keys,
                    writer.name(prompt.instance, "instance") or ONE_INSTANCE,
                    Event.TURN,
                    writer.name(prompt.type, "type"),
                    writer.hashes.name(prompt.session, "session"),
                    len(prompt.tokens),
                    prompt.output_tokens,
                    read_n=len(keys),
                )
            )
            if count % _TELL_EVERY == 0:
                tell(opened.share)
        if lines.damage:
            bad_lines.add(lines.number + 1, lines.damage)


def _trace(
    source: Path,
    writer: _Writer,
    source_format: SourceFormat | str | None,
    block_tokens: int | None,
    max_bad_lines: int,
    on_progress: Progress | None,
    scratch_parent: Path,
) -> Anonymized:
    scratch = Path(tempfile.mkdtemp(prefix=".anonymize.", dir=scratch_parent))
    try:
        trace = ingest(
            source,
            scratch / "trace",
            source_format=source_format,
            block_tokens=block_tokens,
            as_turns=True if writer.output is OutputFormat.MOONCAKE else None,
            max_bad_lines=max_bad_lines,
            on_progress=Throttle(on_progress, 0, 0.5),
        )
        if writer.is_output_open and _fits_mooncake(trace):
            writer.output = OutputFormat.MOONCAKE
        if writer.output is OutputFormat.MOONCAKE and np.any(np.asarray(trace.event) != Event.TURN):
            raise TraceReadError(
                "bad_option",
                "the trace has reads and writes, Mooncake's format has turns only",
                field="output",
            )
        tell = Throttle(on_progress, 0.5, 1)
        for count, request in enumerate(_requests(trace, writer)):
            writer.write(request)
            if count % _TELL_EVERY == 0:
                tell(count / trace.requests)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _told(writer, trace.header.bad_lines, trace.header.bad_line_count)


def _fits_mooncake(trace: Trace) -> bool:
    """Whether Mooncake's format says all that the trace does: partial blocks, which the schema has no place
    for, and no session, named instance, output block, or size of blocks that it cannot say itself."""
    own = {(known.instance_id, known.block_tokens) for known in trace.header.instances}
    if not trace.header.has_partial_blocks or own != {(ONE_INSTANCE, BLOCK_TOKENS[TraceFormat.MOONCAKE])}:
        return False
    whole = np.diff(np.asarray(trace.offset)) == np.asarray(trace.read_n)
    is_turn = np.asarray(trace.event) == Event.TURN
    is_bare = (np.asarray(trace.session) < 0) & (np.asarray(trace.skip_n) == 0)
    return bool(np.all(whole & is_turn & is_bare))


def _requests(trace: Trace, writer: _Writer) -> Iterator[OutputRequest]:
    header = trace.header
    instances = [writer.name(known.instance_id, "instance") for known in header.instances]
    types = [writer.name(name, "type") for name in header.types]
    # Mooncake's format has one namespace; equal keys of two instances must not become one there.
    is_apart = writer.output is OutputFormat.MOONCAKE and len(instances) > 1
    hashed = np.zeros(trace.distinct_blocks, dtype=np.int64)
    seen = 0
    for r in range(trace.requests):
        paths = np.asarray(trace.path[trace.offset[r] : trace.offset[r + 1]])
        # Paths are numbered as they first appear: those not seen yet are the next ones.
        last = int(paths.max(initial=-1)) + 1
        for path in range(seen, last):
            space = int(trace.path_instance[path]) + 1 if is_apart else 0
            hashed[path] = writer.hashes.key(int(trace.key[path]), space)
        seen = max(seen, last)
        session = int(trace.session[r])
        yield OutputRequest(
            header.start_us + int(trace.at_us[r]),
            hashed[paths].tolist(),
            instances[trace.instance[r]],
            Event(int(trace.event[r])),
            types[trace.type[r]],
            writer.hashes.name(str(session), "session") if session >= 0 else "",
            int(trace.input_tokens[r]),
            int(trace.output_tokens[r]),
            int(trace.skip_n[r]),
            int(trace.read_n[r]),
        )
