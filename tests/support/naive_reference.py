"""A plain model of the reference simulator over chains of keys: objects and lists, no path ids.

Lists run from the newest to the oldest. A block is identified by its chain (a tuple of keys) in lru and
random_lru; leaf_aware_lru has a radix tree of nodes with children by first key.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.optimizer.trace import Event

Chain = tuple[int, ...]
MASK = 2**64 - 1


def chains(keys: Sequence[int]) -> list[Chain]:
    return [tuple(keys[: end + 1]) for end in range(len(keys))]


class ModelLru:
    def __init__(self, batch: int, sample_rate: float) -> None:
        self.order: list[Chain] = []

    def size(self) -> int:
        return len(self.order)

    def read(self, keys: Sequence[int], now: int) -> int:
        for number, block in enumerate(chains(keys)):
            if block not in self.order:
                return number
            self.order.remove(block)
            self.order.insert(0, block)
        return len(keys)

    def write(self, keys: Sequence[int], now: int) -> int:
        missing = [block for block in chains(keys) if block not in self.order]
        for block in missing:
            self.order.insert(0, block)
        return len(missing)

    def turn(self, keys: Sequence[int], now: int) -> tuple[int, int]:
        hits = self.read(keys, now)
        return hits, self.write(keys, now)

    def evict(self, count: int) -> int:
        gone = min(count, len(self.order))
        del self.order[len(self.order) - gone :]
        return gone

    def clean(self) -> None:
        """Nothing is left of what was evicted."""


def libstdcxx_partial_sort(items: list[int], count: int, times: list[int]) -> None:
    """As `std::partial_sort` of GNU libstdc++: heap sort of the first `count`; later smaller ones go in."""

    def sift(length: int, hole: int, item: int) -> None:
        top = hole
        while (children := [at for at in (2 * hole + 1, 2 * hole + 2) if at < length]) != []:
            # Of two equal children the right one.
            larger = max(reversed(children), key=lambda at: times[items[at]])
            items[hole] = items[larger]
            hole = larger
        while hole > top and times[items[(hole - 1) // 2]] < times[item]:
            items[hole] = items[(hole - 1) // 2]
            hole = (hole - 1) // 2
        items[hole] = item

    for hole in reversed(range(count // 2)):
        sift(count, hole, items[hole])
    for at in range(count, len(items)):
        if times[items[at]] < times[items[0]]:
            item, items[at] = items[at], items[0]
            sift(count, 0, item)
    for end in reversed(range(1, count)):
        item, items[end] = items[end], items[0]
        sift(end, 0, item)


class ModelRandomLru(ModelLru):
    """`order` is only who is resident, in the places that draws refer to."""

    def __init__(self, batch: int, sample_rate: float) -> None:
        super().__init__(batch, sample_rate)
        self.draws = int(batch / (sample_rate if sample_rate > 0 else 0.1))
        self.random = 0x12345678ABCDEF01
        self.times: dict[Chain, int] = {}

    def read(self, keys: Sequence[int], now: int) -> int:
        for number, block in enumerate(chains(keys)):
            if block not in self.order:
                return number
            self.times[block] = now
        return len(keys)

    def write(self, keys: Sequence[int], now: int) -> int:
        missing = [block for block in chains(keys) if block not in self.order]
        self.order += missing
        self.times.update(dict.fromkeys(missing, now))
        return len(missing)

    def evict(self, count: int) -> int:
        if not self.order:
            return 0
        drawn = []
        for _ in range(min(self.draws, len(self.order))):
            self.random ^= self.random << 13 & MASK
            self.random ^= self.random >> 7
            self.random ^= self.random << 17 & MASK
            drawn.append(self.random % len(self.order))
        picked = min(count, len(drawn))
        libstdcxx_partial_sort(drawn, picked, [self.times[block] for block in self.order])
        gone = 0
        for block in [self.order[place] for place in drawn[:picked]]:
            if block in self.order:
                place = self.order.index(block)
                self.order[place] = self.order[-1]
                self.order.pop()
                gone += 1
        return gone


class Block:
    def __init__(self, key: int) -> None:
        self.key, self.is_resident, self.time, self.node = key, False, -1, None


class Node:
    def __init__(self, up: Node | None) -> None:
        self.up, self.blocks, self.children = up, list[Block](), dict[int, Node]()

    def is_data_leaf(self) -> bool:
        return not any(block.is_resident for child in self.children.values() for block in child.blocks)


class ModelLeafAwareLru:
    def __init__(self, batch: int, sample_rate: float) -> None:
        self.root = Node(None)
        self.listed: list[Block] = []
        self.count = 0
        self.evicted: list[Block] = []

    def size(self) -> int:
        return self.count

    def read(self, keys: Sequence[int], now: int) -> int:
        hits, node = 0, self.root
        while hits < len(keys) and keys[hits] in node.children:
            node = node.children[keys[hits]]
            for block in node.blocks:
                if hits == len(keys) or block.key != keys[hits] or not block.is_resident:
                    return hits
                self.access(block, now)
                hits += 1
        return hits

    def access(self, block: Block, now: int) -> None:
        block.time = now
        if block in self.listed:
            self.listed.remove(block)
            self.listed.insert(0, block)

    def place(self, block: Block, node: Node, now: int) -> None:
        block.is_resident, block.time, block.node = True, now, node
        self.count += 1
        if not node.children:
            self.listed.insert(0, block)

    def extend(self, node: Node, keys: Sequence[int], now: int) -> int:
        fresh = [Block(key) for key in keys]
        node.blocks += fresh
        for block in fresh:
            self.place(block, node, now)
        return len(fresh)

    def write(self, keys: Sequence[int], now: int) -> int:
        return self.walk(keys, now, touches=False)[1]

    def turn(self, keys: Sequence[int], now: int) -> tuple[int, int]:
        return self.walk(keys, now, touches=True)

    def walk(self, keys: Sequence[int], now: int, touches: bool) -> tuple[int, int]:
        node, hits, written, rest = self.root, 0, 0, list(keys)
        while rest:
            if node is not self.root and not node.children:
                return hits, written + self.extend(node, rest, now)
            if rest[0] not in node.children:
                child = Node(node)
                written += self.extend(child, rest, now)
                node.children[rest[0]] = child
                return hits, written
            child = node.children[rest[0]]
            same = 0
            while same < min(len(child.blocks), len(rest)) and child.blocks[same].key == rest[same]:
                same += 1
            for block in child.blocks[:same]:
                touches = touches and block.is_resident
                if touches:
                    self.access(block, now)
                    hits += 1
            for block in child.blocks[:same]:
                if not block.is_resident:
                    self.place(block, child, now)
                    written += 1
            rest = rest[same:]
            if rest and same < len(child.blocks):
                upper = Node(node)
                upper.blocks, child.blocks = child.blocks[:same], child.blocks[same:]
                for block in upper.blocks:
                    block.node = upper
                child.up = upper
                upper.children[child.blocks[0].key] = child
                node.children[upper.blocks[0].key] = upper
                leaf = Node(upper)
                written += self.extend(leaf, rest, now)
                upper.children[rest[0]] = leaf
                return hits, written
            node = child
        return hits, written

    def evict(self, count: int) -> int:
        gone, done = 0, list[Node]()
        while gone < count and self.listed:
            block = self.listed.pop()
            if not block.node.is_data_leaf():
                continue
            block.is_resident = False
            self.evicted.append(block)
            self.count -= 1
            gone += 1
            up = block.node.up
            if up is not self.root and up not in done and self.list_again(up):
                done.append(up)
        return gone

    def list_again(self, node: Node) -> bool:
        back = [block for block in node.blocks if block.is_resident and block not in self.listed]
        if not back or not node.is_data_leaf():
            return False
        for block in back:
            self.insert_by_time(block)
        return True

    def insert_by_time(self, block: Block) -> None:
        if not self.listed:
            self.listed.append(block)
            return
        newest, oldest = self.listed[0].time, self.listed[-1].time
        if block.time >= newest or (block.time > oldest and newest - block.time < block.time - oldest):
            at = 0
            while at < len(self.listed) and self.listed[at].time > block.time:
                at += 1
        else:
            at = len(self.listed)
            while at > 0 and self.listed[at - 1].time < block.time:
                at -= 1
        self.listed.insert(at, block)

    def clean(self) -> None:
        nodes = [block.node for block in self.evicted]
        self.evicted = []
        while empty := [
            node
            for node in nodes
            if not node.children and not any(block.is_resident for block in node.blocks)
        ]:
            for node in empty:
                node.up.children.pop(node.blocks[0].key, None)
                nodes = [other for other in nodes if other is not node]


MODELS = {"lru": ModelLru, "random_lru": ModelRandomLru, "leaf_aware_lru": ModelLeafAwareLru}


def model_replay(
    turns: Sequence,
    policies: Sequence[str],
    groups: Sequence[tuple[int, Sequence[int]]],
    *,
    mode: int,
    batch: int,
    sample_rate: float,
) -> tuple[list[int], list[list[int]], list[int]]:
    """Hit length of each event, sizes of all caches after each, blocks written by each cache.

    `policies` by instance; `groups`: quota and instances.
    """
    caches = [MODELS[policy](batch, sample_rate) for policy in policies]
    hits, sizes, written = [], [], [0] * len(policies)
    for turn in turns:
        cache, hit = caches[turn.instance], 0
        if turn.event is Event.READ:
            hit = cache.read(turn.keys, turn.at_us)
        else:
            if turn.event is Event.WRITE:
                fresh = cache.write(turn.keys, turn.at_us)
            else:
                hit, fresh = cache.turn(turn.keys, turn.at_us)
            written[turn.instance] += fresh
            quota, members = next(group for group in groups if turn.instance in group[1])
            excess = sum(caches[member].size() for member in members) - quota
            gone = 0
            while gone < excess:
                before = gone
                for member in members if mode == 1 else [turn.instance]:
                    gone += caches[member].evict(min(batch, excess - gone) if mode == 3 else batch)
                if gone == before:
                    break
            for member in members:
                caches[member].clean()
        hits.append(hit)
        sizes.append([each.size() for each in caches])
    return hits, sizes, written
