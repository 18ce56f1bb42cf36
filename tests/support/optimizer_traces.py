"""Small traces for tests of the optimizer: of lists, random, or read from shared files by a plain loop."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from kvcm_platform.optimizer.trace import NO_PARENT, Event, Trace, TraceHeader, TraceInstance

SHARED = next(
    (found for above in Path(__file__).parents if (found := above / "shared" / "data" / "traces").is_dir()),
    Path("no shared traces"),
)
"""Public traces beside the repository or above its worktree."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")


@dataclass(slots=True)
class Turn:
    """One request. `read_n` None: all of its blocks are looked up; `input_tokens` None: no partial block."""

    keys: Sequence[int]
    at_us: int = 0
    instance: int = 0
    type: int = 0
    session: int = -1
    skip_n: int = 0
    read_n: int | None = None
    input_tokens: int | None = None
    output_tokens: int = 0
    event: Event = Event.TURN
    paths: list[int] = field(default_factory=list)
    """Filled in by `trace_of`."""

    @property
    def lookup(self) -> int:
        return len(self.keys) if self.read_n is None else self.read_n


ONE = (TraceInstance("i0", block_tokens=16, block_bytes=4096),)


def trace_of(
    turns: Iterable[Turn],
    instances: Sequence[TraceInstance] = ONE,
    *,
    types: Sequence[str] = ("",),
    has_partial_blocks: bool = False,
    name: str = "test",
) -> Trace:
    """The turns as columns; chains become path ids by a dictionary."""
    turns = list(turns)
    ids: dict[tuple[int, int, int], int] = {}
    parent: list[int] = []
    depth: list[int] = []
    keys: list[int] = []
    owner: list[int] = []
    for turn in turns:
        above = NO_PARENT
        turn.paths = []
        for level, key in enumerate(turn.keys):
            node = (turn.instance, above, key)
            if node not in ids:
                ids[node] = len(ids)
                parent.append(above)
                depth.append(level)
                keys.append(key)
                owner.append(turn.instance)
            above = ids[node]
            turn.paths.append(above)
    lengths = [len(turn.keys) for turn in turns]
    tokens = [
        turn.lookup * instances[turn.instance].block_tokens
        if turn.input_tokens is None
        else turn.input_tokens
        for turn in turns
    ]
    return Trace(
        header=TraceHeader(
            name=name,
            format="test",
            instances=tuple(instances),
            types=tuple(types),
            has_partial_blocks=has_partial_blocks,
        ),
        at_us=np.array([turn.at_us for turn in turns], dtype=np.int64),
        event=np.array([turn.event for turn in turns], dtype=np.int8),
        instance=np.array([turn.instance for turn in turns], dtype=np.int32),
        type=np.array([turn.type for turn in turns], dtype=np.int32),
        session=np.array([turn.session for turn in turns], dtype=np.int32),
        input_tokens=np.array(tokens, dtype=np.int32),
        output_tokens=np.array([turn.output_tokens for turn in turns], dtype=np.int32),
        skip_n=np.array([turn.skip_n for turn in turns], dtype=np.int32),
        read_n=np.array([turn.lookup for turn in turns], dtype=np.int32),
        offset=np.cumsum([0, *lengths], dtype=np.int64),
        path=np.array([path for turn in turns for path in turn.paths], dtype=np.int32),
        parent=np.array(parent, dtype=np.int32),
        depth=np.array(depth, dtype=np.int32),
        key=np.array(keys, dtype=np.int64),
        path_instance=np.array(owner, dtype=np.int32),
    )


MIXED = (
    TraceInstance("i0", block_tokens=16, block_bytes=3000, group="g"),
    TraceInstance("i1", block_tokens=4, block_bytes=2000, group="g"),
    TraceInstance("i2", block_tokens=7, block_bytes=7000, group="h"),
)
MIXED_TYPES = ("chat", "agent")


def random_turns(
    chance: random.Random,
    *,
    requests: int = 12,
    most_blocks: int = 6,
    keys: int = 2,
    instances: int = 1,
    is_plain: bool = False,
) -> list[Turn]:
    """Chains over few keys: prefixes meet again. Unless plain: skipped blocks, output, partial blocks."""
    turns = []
    now = 0
    for number in range(requests):
        now += chance.choice((0, 0, 1, 2, 5, 30))
        chain = [chance.randrange(keys) for _ in range(chance.randint(1, most_blocks))]
        turn = Turn(
            chain, now, instance=chance.randrange(instances), type=chance.randrange(2), session=number
        )
        if not is_plain:
            turn.read_n = chance.randint(0, len(chain)) if chance.random() < 0.3 else len(chain)
            turn.skip_n = chance.randint(0, turn.read_n) if chance.random() < 0.3 else 0
            full = MIXED[turn.instance].block_tokens
            turn.input_tokens = max(0, turn.read_n * full - chance.randrange(full))
            turn.output_tokens = chance.randrange(50)
        turns.append(turn)
    return turns


def random_trace(chance: random.Random, **shape: int | bool) -> tuple[Trace, list[Turn]]:
    """A trace of up to three instances of different block sizes, and the turns that it was made of."""
    turns = random_turns(chance, **shape)  # type: ignore[arg-type]
    return trace_of(turns, MIXED, types=MIXED_TYPES, has_partial_blocks=True), turns


def mooncake_trace(name: str) -> Trace:
    """`conversation` or `synthetic`, by the plain loop above."""
    turns = []
    with (SHARED / f"mooncake_{name}_trace.jsonl").open() as lines:
        for line in lines:
            record = json.loads(line)
            turns.append(
                Turn(
                    record["hash_ids"],
                    record["timestamp"] * 1000,
                    input_tokens=record["input_length"],
                    output_tokens=record["output_length"],
                )
            )
    instances = (TraceInstance("mooncake", block_tokens=512),)
    return trace_of(turns, instances, has_partial_blocks=True, name=f"mooncake {name}")
