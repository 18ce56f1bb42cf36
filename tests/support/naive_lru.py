"""The least recently used blocks of a cache of so many, request by request: what reclaim is held against."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path


def prompts_of(trace: Path) -> Iterator[list[int]]:
    """The block ids of each request of a Mooncake trace."""
    with trace.open() as lines:
        for line in lines:
            yield json.loads(line)["hash_ids"]


def hit_rate(prompts: Iterable[Sequence[int]], capacity: int) -> float:
    """Hit blocks by requested blocks, where a request hits the longest prefix that is there.

    Every request uses all of its blocks, its last one first: a prompt loses its tail before its head.
    """
    cache: OrderedDict[int, None] = OrderedDict()
    requested = hits = 0
    for prompt in prompts:
        requested += len(prompt)
        hits += next((at for at, key in enumerate(prompt) if key not in cache), len(prompt))
        for key in reversed(prompt):
            cache[key] = None
            cache.move_to_end(key)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits / requested
