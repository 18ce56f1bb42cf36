"""The reference simulator's `leaf_aware_lru`: only blocks of leaf nodes are in its eviction list.

Blocks enter the list when they are written into a leaf node; those of a node that is no leaf any more leave
it only when they come to its old end; those of a node whose children have lost all their blocks enter it by
their time of access. A block written again into a node that has (empty) children is in no list, so a cache
may stay above its quota.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compat import radix_nodes
from kvcm_platform.optimizer.compat.radix_nodes import (
    CHILDREN,
    DATA_CHILDREN,
    FIRST,
    LAST,
    ROOT,
    SEEN,
    UP,
)
from kvcm_platform.optimizer.compat.state import (
    BELOW,
    LISTED,
    NEWER,
    NEWEST,
    NOBODY,
    OLDER,
    OLDEST,
    OWNER,
    RESIDENT,
    SIZE,
    move_to_front,
    push_front,
    unlink,
)
from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32, Int64

_append, _new_node, _split = radix_nodes.append, radix_nodes.new_node, radix_nodes.split
_set_resident, _set_away = radix_nodes.set_resident, radix_nodes.set_away


@compiled
def _access(blocks: Int32, last: Int64, instances: Int64, owner: int, block: int, now: int) -> None:
    last[block] = now
    if blocks[block, LISTED]:
        move_to_front(blocks, instances, owner, block)


@compiled
def _place(
    blocks: Int32, last: Int64, instances: Int64, nodes: Int32, owner: int, block: int, now: int
) -> None:
    """A block of a node becomes resident."""
    last[block] = now
    _set_resident(blocks, nodes, block)
    if nodes[blocks[block, OWNER], CHILDREN] == 0:
        push_front(blocks, instances, owner, block)
        blocks[block, LISTED] = 1


@compiled
def _extend(
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    owner: int,
    node: int,
    path: Int32,
    begin: int,
    end: int,
    now: int,
) -> None:
    """Appends blocks that no node holds to a leaf node."""
    for at in range(begin, end):
        _append(blocks, nodes, node, path[at])
        _place(blocks, last, instances, nodes, owner, path[at], now)


@compiled
def read(
    blocks: Int32, last: Int64, instances: Int64, owner: int, path: Int32, begin: int, end: int, now: int
) -> int:
    """Touches the leading blocks that are resident; their number."""
    at = begin
    while at < end and blocks[path[at], RESIDENT] == 1:
        _access(blocks, last, instances, owner, path[at], now)
        at += 1
    return at - begin


@compiled
def walk(
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    parent: Int32,
    owner: int,
    path: Int32,
    begin: int,
    end: int,
    now: int,
    touches: bool,
) -> int:
    """Brings a chain into the tree, node by node; the number of blocks written.

    `touches`: the leading blocks that are resident are touched, as a turn does and a write does not.
    """
    node = ROOT
    written = 0
    at = begin
    while at < end:
        if node != ROOT and nodes[node, CHILDREN] == 0:
            _extend(blocks, last, instances, nodes, owner, node, path, at, end, now)
            written += end - at
            break
        child = blocks[path[at], OWNER]
        if child == NOBODY:
            child = _new_node(nodes, node)
            _extend(blocks, last, instances, nodes, owner, child, path, at, end, now)
            if node != ROOT:
                nodes[node, CHILDREN] += 1
            written += end - at
            break
        matched = at
        missing = 0
        while matched < end and blocks[path[matched], OWNER] == child:
            if blocks[path[matched], RESIDENT] == 0:
                touches = False
                missing += 1
            elif touches:
                _access(blocks, last, instances, owner, path[matched], now)
            matched += 1
        if missing:
            for again in range(at, matched):
                if blocks[path[again], RESIDENT] == 0:
                    _place(blocks, last, instances, nodes, owner, path[again], now)
            written += missing
        if matched < end and path[matched - 1] != nodes[child, LAST]:
            upper = _split(blocks, nodes, parent, child, path[matched - 1])
            leaf = _new_node(nodes, upper)
            _extend(blocks, last, instances, nodes, owner, leaf, path, matched, end, now)
            nodes[upper, CHILDREN] += 1
            written += end - matched
            break
        node = child
        at = matched
    instances[owner, SIZE] += written
    return written


@compiled
def _insert_by_time(blocks: Int32, last: Int64, instances: Int64, owner: int, block: int) -> None:
    """From the nearer end of the list, by the times at both; where it stands among equals depends on it."""
    newest = instances[owner, NEWEST]
    if newest == NOBODY:
        push_front(blocks, instances, owner, block)
        return
    oldest = instances[owner, OLDEST]
    time = last[block]
    from_front = time >= last[newest]
    if not from_front and time > last[oldest]:
        from_front = last[newest] - time < time - last[oldest]
    if from_front:
        older = newest
        while older != NOBODY and time < last[older]:
            older = blocks[older, OLDER]
        newer = oldest if older == NOBODY else blocks[older, NEWER]
    else:
        newer = oldest
        while newer != NOBODY and last[newer] < time:
            newer = blocks[newer, NEWER]
        older = newest if newer == NOBODY else blocks[newer, OLDER]
    blocks[block, NEWER] = newer
    blocks[block, OLDER] = older
    if newer == NOBODY:
        instances[owner, NEWEST] = block
    else:
        blocks[newer, OLDER] = block
    if older == NOBODY:
        instances[owner, OLDEST] = block
    else:
        blocks[older, NEWER] = block


@compiled
def _list_again(blocks: Int32, last: Int64, instances: Int64, nodes: Int32, owner: int, node: int) -> bool:
    """The residents of a node without blocks below it come back to the list; whether there were any."""
    if nodes[node, DATA_CHILDREN] > 0:
        return False
    found = False
    block = nodes[node, FIRST]
    while block != NOBODY:
        if blocks[block, RESIDENT] == 1 and blocks[block, LISTED] == 0:
            _insert_by_time(blocks, last, instances, owner, block)
            blocks[block, LISTED] = 1
            found = True
        block = blocks[block, BELOW]
    return found


@compiled
def evict(
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    scratch: Int32,
    owner: int,
    count: int,
    noted: int,
    call: int,
) -> int:
    """Evicts up to `count` blocks and notes them from `scratch[noted]` on; how many. `call`: a new number."""
    evicted = 0
    while evicted < count and instances[owner, OLDEST] != NOBODY:
        block = instances[owner, OLDEST]
        node = blocks[block, OWNER]
        unlink(blocks, instances, owner, block)
        blocks[block, LISTED] = 0
        if nodes[node, DATA_CHILDREN] > 0:
            continue
        scratch[noted + evicted] = block
        evicted += 1
        _set_away(blocks, nodes, block)
        up = nodes[node, UP]
        if up != ROOT and nodes[up, SEEN] != call and _list_again(blocks, last, instances, nodes, owner, up):
            nodes[up, SEEN] = call
    instances[owner, SIZE] -= evicted
    return evicted
