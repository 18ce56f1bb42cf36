"""Lookups that wait for the write that follows them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from .source_request import SourceRequest

_Prefix = tuple[str, int, int]
"""Instance, number of keys, running hash of them."""


class Lookups:
    """Bounded: the oldest lookup goes when there are too many, and all older than `longest_us`."""

    def __init__(self, most: int, longest_us: int) -> None:
        self._most = most
        self._longest_us = longest_us
        self._by_number: dict[int, tuple[_Prefix, SourceRequest]] = {}
        self._by_prefix: dict[_Prefix, list[int]] = {}
        self._next = 0

    def add(self, request: SourceRequest) -> list[SourceRequest]:
        """Waits from now on; returns those that need wait no longer."""
        given_up = []
        while self._by_number:
            number, (_, oldest) = next(iter(self._by_number.items()))
            if len(self._by_number) < self._most and request.at_us - oldest.at_us <= self._longest_us:
                break
            given_up.append(self._remove(number))
        *_, (count, running) = _prefixes(request.keys[:-1])
        prefix = (request.instance, count, running)
        self._by_number[self._next] = (prefix, request)
        self._by_prefix.setdefault(prefix, []).append(self._next)
        self._next += 1
        return given_up

    def take(self, instance: str, keys: array[int], at_us: int) -> SourceRequest | None:
        """The latest of the instance, not after `at_us`, whose keys but the last are the first of these."""
        best = -1
        for count, running in _prefixes(keys):
            for number in reversed(self._by_prefix.get((instance, count, running), ())):
                request = self._by_number[number][1]
                if request.at_us <= at_us and request.keys[:-1] == keys[:count]:
                    best = max(best, number)
                    break
        return self._remove(best) if best >= 0 else None

    def rest(self) -> list[SourceRequest]:
        """All that still wait, the oldest first; they wait no longer."""
        left = [request for _, request in self._by_number.values()]
        self._by_number.clear()
        self._by_prefix.clear()
        return left

    def _remove(self, number: int) -> SourceRequest:
        prefix, request = self._by_number.pop(number)
        numbers = self._by_prefix[prefix]
        numbers.remove(number)
        if not numbers:
            del self._by_prefix[prefix]
        return request


def _prefixes(keys: array[int]) -> Iterator[tuple[int, int]]:
    """(number of keys, running hash) of every prefix, the empty one first."""
    running = 0
    yield 0, running
    for count, key in enumerate(keys, start=1):
        running = hash((running, key))
        yield count, running
