"""The radix tree summary against a tree made of dictionaries."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.answers.hot_prefixes import NO_NODE, hot_prefixes, prefixes_to_json
from kvcm_platform.optimizer.trace import TraceInstance
from tests.support.optimizer_traces import Turn, trace_of

INSTANCES = (TraceInstance("i0", 16), TraceInstance("i1", 16))


def naive_nodes(
    chains: list[list[int]], sessions: list[int], at_us: list[int]
) -> dict[tuple[int, ...], dict[str, Any]]:
    """By the prefix up to a node's first block: a node goes on as long as the same requests do."""
    users: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for request, chain in enumerate(chains):
        for length in range(1, len(chain) + 1):
            users[tuple(chain[:length])].append(request)
    nodes: dict[tuple[int, ...], dict[str, Any]] = {}
    for prefix in sorted(users, key=len):
        if len(prefix) > 1 and users[prefix] == users[prefix[:-1]]:
            nodes[node_of(prefix[:-1], nodes)]["blocks"] += 1
            continue
        requests = users[prefix]
        named = {sessions[request] for request in requests} - {-1}
        nodes[prefix] = {
            "blocks": 1,
            "requests": len(requests),
            "sessions": len(named),
            "last": max(at_us[request] for request in requests),
        }
    return nodes


def node_of(prefix: tuple[int, ...], nodes: dict[tuple[int, ...], Any]) -> tuple[int, ...]:
    while prefix not in nodes:
        prefix = prefix[:-1]
    return prefix


def test_the_tree_equals_one_of_dictionaries() -> None:
    chance = random.Random(5)
    for _ in range(150):
        count = chance.randint(1, 25)
        chains = [[chance.randint(0, 2) for _ in range(chance.randint(1, 7))] for _ in range(count)]
        sessions = [chance.randint(-1, 3) for _ in range(count)]
        at_us = sorted(chance.randint(0, 50) for _ in range(count))
        turns = [
            Turn(chain, at_us=at, session=session)
            for chain, at, session in zip(chains, at_us, sessions, strict=True)
        ]
        expected = naive_nodes(chains, sessions, at_us)
        found = hot_prefixes(trace_of(turns), nodes=2000)

        assert found.node_count == len(expected) == len(found.nodes)
        accesses = sum(map(len, chains))
        assert sum(node.access_share for node in found.nodes) == pytest.approx(1.0)
        described = sorted(
            (node.depth, node.first_key, node.blocks, node.requests, node.session_count, node.last_use_us)
            for node in found.nodes
        )
        assert described == sorted(
            (len(prefix) - 1, prefix[-1], node["blocks"], node["requests"], node["sessions"], node["last"])
            for prefix, node in expected.items()
        )
        for node in found.nodes:
            assert node.access_share == pytest.approx(node.blocks * node.requests / accesses)


def test_the_most_used_nodes_form_a_tree_without_gaps() -> None:
    chance = random.Random(6)
    chains = [[chance.randint(0, 3) for _ in range(chance.randint(1, 6))] for _ in range(60)]
    whole = hot_prefixes(trace_of(map(Turn, chains)), nodes=2000)
    found = hot_prefixes(trace_of(map(Turn, chains)), nodes=9)

    assert [node.requests for node in found.nodes] == sorted((n.requests for n in whole.nodes), reverse=True)[
        :9
    ]
    for node in found.nodes:
        assert node.parent < node.id
        assert node.depth == 0 if node.parent == NO_NODE else node.depth > found.nodes[node.parent].depth
    children = sum(node.parent != NO_NODE for node in found.nodes) + sum(n.more_nodes for n in found.nodes)
    below = {node.id for node in whole.nodes if node.id < 9}
    assert children == sum(node.parent in below for node in whole.nodes)


def test_instances_are_trees_of_their_own_and_keys_are_told_whole() -> None:
    key = (1 << 62) + 1
    turns = [Turn([key, 2], instance=0), Turn([key, 2], instance=1), Turn([key], instance=1)]
    found = hot_prefixes(trace_of(turns, INSTANCES), nodes=5)
    document = prefixes_to_json(found)

    assert [(node.instance_id, node.blocks, node.requests) for node in found.nodes] == [
        ("i1", 1, 2),
        ("i0", 2, 1),
        ("i1", 1, 1),
    ]
    assert [root["first_key"] for root in document["nodes"]] == [str(key), str(key)]
    assert document["nodes"][0]["children"][0]["depth"] == 1


@pytest.mark.parametrize("nodes", [0, 2001])
def test_the_number_of_nodes_is_bounded(nodes: int) -> None:
    with pytest.raises(DomainError) as refused:
        hot_prefixes(trace_of([Turn([1])]), nodes=nodes)
    assert refused.value.field == "nodes"


def test_a_trace_without_blocks_has_no_tree() -> None:
    assert hot_prefixes(trace_of([Turn([]), Turn([])])).nodes == ()
