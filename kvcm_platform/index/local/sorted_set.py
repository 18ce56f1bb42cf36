"""Members by score, lowest first, as deadlines and recency need them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

SLACK = 1024


class SortedSet:
    """A heap beside a dict: what moved or went stays in the heap until it comes up or is too much."""

    def __init__(self, items: Iterable[tuple[bytes, float]] = ()) -> None:
        self.scores = dict(items)
        self._heap = [(score, member) for member, score in self.scores.items()]
        heapq.heapify(self._heap)

    def set(self, member: bytes, score: float | None) -> None:
        """None takes the member out."""
        if score is None:
            self.scores.pop(member, None)
            return
        self.scores[member] = score
        heapq.heappush(self._heap, (score, member))
        if len(self._heap) > 2 * len(self.scores) + SLACK:
            self._heap = [(score, member) for member, score in self.scores.items()]
            heapq.heapify(self._heap)

    def lowest(self, latest: float, limit: int) -> list[tuple[bytes, float]]:
        """Up to `limit` members with a score of `latest` or less."""
        found: list[tuple[float, bytes]] = []
        while self._heap and len(found) < limit:
            item = self._heap[0]
            if self.scores.get(item[1]) != item[0] or (found and found[-1] == item):
                heapq.heappop(self._heap)
            elif item[0] > latest:
                break
            else:
                found.append(heapq.heappop(self._heap))
        for item in found:
            heapq.heappush(self._heap, item)
        return [(member, score) for score, member in found]
