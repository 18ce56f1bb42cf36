"""What a reference-compatible cache remembers: integer arrays over path ids, instances and radix nodes.

All instances of a trace share the arrays: path ids are of one instance each.

- `blocks`: P rows, int32. `last`: P, int64, time of the last access (where a policy of the trace asks for
  it).
- `instances`: I rows, int64: settings, list ends and sizes.
- `nodes`: int32, one row a radix node (`radix_nodes`; one row where no policy needs them).
- `scratch`: int32: P places for the residents of random_lru, P for the blocks evicted by one event, the rest
  for what random_lru draws.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64

NOBODY = -1

# Columns of `blocks`.
RESIDENT = 0
NEWER = 1
OLDER = 2
"""random_lru: its place among the residents of its instance."""
OWNER = 3
"""The radix node that holds the block, or NOBODY; this column and the next ones for leaf_aware_lru only."""
BELOW = 4
"""The next block of the same node, or NOBODY."""
LISTED = 5
"""Whether it is in the eviction list."""
PLAIN_COLUMNS = 3
NODE_COLUMNS = 6

# Columns of `instances`.
POLICY = 0
GROUP = 1
SIZE = 2
NEWEST = 3
OLDEST = 4
SAMPLE_SIZE = 5
RANDOM = 6
"""State of xorshift64, its 64 bits."""
BASE = 7
"""Where its residents begin in `scratch`."""
WRITTEN = 8
"""Blocks written, those written again included."""
INSTANCE_COLUMNS = 9

LRU = 0
RANDOM_LRU = 1
LEAF_AWARE_LRU = 2


@compiled
def push_front(blocks: Int32, instances: Int64, owner: int, path: int) -> None:
    """Puts a block that is in no list at the newest end of its instance's."""
    first = instances[owner, NEWEST]
    blocks[path, OLDER] = first
    blocks[path, NEWER] = NOBODY
    if first == NOBODY:
        instances[owner, OLDEST] = path
    else:
        blocks[first, NEWER] = path
    instances[owner, NEWEST] = path


@compiled
def unlink(blocks: Int32, instances: Int64, owner: int, path: int) -> None:
    newer = blocks[path, NEWER]
    older = blocks[path, OLDER]
    if newer == NOBODY:
        instances[owner, NEWEST] = older
    else:
        blocks[newer, OLDER] = older
    if older == NOBODY:
        instances[owner, OLDEST] = newer
    else:
        blocks[older, NEWER] = newer


@compiled
def move_to_front(blocks: Int32, instances: Int64, owner: int, path: int) -> None:
    if instances[owner, NEWEST] != path:
        unlink(blocks, instances, owner, path)
        push_front(blocks, instances, owner, path)
