"""The reference simulator's replay, compiled: events, quotas and eviction modes.

- A turn looks its chain up, touches what it hit and writes the rest, in one walk from the root down. Its hits
  are counted over the whole chain, output included.
- A read touches what it hit; a write inserts what is missing and touches nothing.
- After a turn or a write the group's excess over its quota is evicted. GROUP_ROUGH takes a whole batch of
  every instance of the group, round by round; INSTANCE_ROUGH whole batches of the instance that wrote;
  INSTANCE_PRECISE no more than the excess of that instance, a batch at a time.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compat import leaf_aware_lru, lru, radix_nodes, random_lru
from kvcm_platform.optimizer.compat.state import (
    GROUP,
    LEAF_AWARE_LRU,
    LRU,
    POLICY,
    RANDOM_LRU,
    RESIDENT,
    SIZE,
    WRITTEN,
)
from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Event, Int8, Int32, Int64

GROUP_ROUGH = 1
INSTANCE_ROUGH = 2
INSTANCE_PRECISE = 3

# Columns of `groups`.
QUOTA = 0
USED = 1
MEMBERS_BEGIN = 2
"""Of `members`, the instances in the order of the configuration."""
MEMBERS_END = 3
GROUP_COLUMNS = 4

# Positions in `counters`.
CALLS = 0
EVICTED = 1
COUNTERS = 2

_READ, _WRITE = int(Event.READ), int(Event.WRITE)
_lru_hit, _lru_write, _lru_evict = lru.hit, lru.write, lru.evict
_random_hit, _random_write, _random_evict = random_lru.hit, random_lru.write, random_lru.evict
_leaf_read, _leaf_walk, _leaf_evict = leaf_aware_lru.read, leaf_aware_lru.walk, leaf_aware_lru.evict
_clean = radix_nodes.clean


@compiled
def _hit(
    blocks: Int32, last: Int64, instances: Int64, owner: int, path: Int32, begin: int, end: int, now: int
) -> int:
    """Touches the leading blocks that are resident; their number."""
    if instances[owner, POLICY] == LRU:
        return _lru_hit(blocks, instances, owner, path, begin, end)
    if instances[owner, POLICY] == RANDOM_LRU:
        return _random_hit(blocks, last, path, begin, end, now)
    return _leaf_read(blocks, last, instances, owner, path, begin, end, now)


@compiled
def _evict(
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    scratch: Int32,
    counters: Int64,
    owner: int,
    count: int,
    noted: int,
) -> int:
    if instances[owner, POLICY] == LRU:
        return _lru_evict(blocks, instances, owner, count)
    if instances[owner, POLICY] == RANDOM_LRU:
        return _random_evict(blocks, last, instances, scratch, owner, count)
    counters[CALLS] += 1
    return _leaf_evict(blocks, last, instances, nodes, scratch, owner, count, noted, counters[CALLS])


@compiled
def _make_room(
    mode: int,
    batch: int,
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    scratch: Int32,
    groups: Int64,
    members: Int64,
    counters: Int64,
    writer: int,
) -> None:
    group = instances[writer, GROUP]
    excess = groups[group, USED] - groups[group, QUOTA]
    evicted = 0
    noted_from = len(blocks)
    noted = noted_from
    while evicted < excess:
        before = evicted
        begin, end = groups[group, MEMBERS_BEGIN], groups[group, MEMBERS_END]
        count = batch
        if mode != GROUP_ROUGH:
            begin, end = 0, 1
        if mode == INSTANCE_PRECISE:
            count = min(batch, excess - evicted)
        for place in range(begin, end):
            owner = members[place] if mode == GROUP_ROUGH else writer
            gone = _evict(blocks, last, instances, nodes, scratch, counters, owner, count, noted)
            evicted += gone
            if instances[owner, POLICY] == LEAF_AWARE_LRU:
                noted += gone
        if evicted == before:
            break
    groups[group, USED] -= evicted
    counters[EVICTED] += evicted
    if noted > noted_from:
        _clean(blocks, nodes, scratch, noted_from, noted)


@compiled
def replay(
    mode: int,
    batch: int,
    blocks: Int32,
    last: Int64,
    instances: Int64,
    nodes: Int32,
    parent: Int32,
    scratch: Int32,
    groups: Int64,
    members: Int64,
    counters: Int64,
    at_us: Int64,
    event: Int8,
    instance: Int32,
    offset: Int64,
    path: Int32,
    begin: int,
    end: int,
    hits: Int32,
    sizes: Int32,
) -> None:
    """Replays the requests `begin` to below `end`; the state goes on from the call before.

    `hits[r - begin]` becomes the hit length of request r (0 of a write); `sizes[r - begin]` what each
    instance holds after it, where the array has columns.
    """
    for request in range(begin, end):
        owner = instance[request]
        first, stop = offset[request], offset[request + 1]
        now = at_us[request]
        hit_n = 0
        if event[request] == _READ or (
            event[request] != _WRITE and instances[owner, POLICY] != LEAF_AWARE_LRU
        ):
            hit_n = _hit(blocks, last, instances, owner, path, first, stop, now)
        if event[request] != _READ:
            if instances[owner, POLICY] == LRU:
                written = _lru_write(blocks, instances, owner, path, first + hit_n, stop)
            elif instances[owner, POLICY] == RANDOM_LRU:
                written = _random_write(
                    blocks, last, instances, scratch, owner, path, first + hit_n, stop, now
                )
            else:
                is_turn = event[request] != _WRITE
                if is_turn:
                    hit_n = _resident_n(blocks, path, first, stop)
                written = _leaf_walk(
                    blocks, last, instances, nodes, parent, owner, path, first, stop, now, is_turn
                )
            instances[owner, WRITTEN] += written
            groups[instances[owner, GROUP], USED] += written
            _make_room(mode, batch, blocks, last, instances, nodes, scratch, groups, members, counters, owner)
        hits[request - begin] = hit_n
        for column in range(sizes.shape[1]):
            sizes[request - begin, column] = instances[column, SIZE]


@compiled
def _resident_n(blocks: Int32, path: Int32, begin: int, end: int) -> int:
    at = begin
    while at < end and blocks[path[at], RESIDENT] == 1:
        at += 1
    return at - begin
