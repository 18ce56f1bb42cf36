"""What a MetaIndex stands on: reads, and writes under a condition, each batch in one step.

`resolve` is the rule of a batch; the server-side function in `lua/7_meta_index.lua` is its twin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kvcm_platform.core.errors import Code, DomainError

from .interface import IndexUsage, Outcome, Page

KEY_BYTES = 8
MOST_WRITES = 512
"""Keys of one call of a store: a server-side function must not hold others up (DESIGN 4.1)."""


class Expected(Enum):
    ANYTHING = "anything"
    SOMETHING = "something"
    """Any record, but one there must be; without one the outcome is MISSING."""


@dataclass(frozen=True, slots=True)
class Write:
    """`record` None deletes. `expected`: the record that must be there now, None for none, or Expected."""

    key: int
    record: bytes | None
    expected: bytes | None | Expected = Expected.ANYTHING


class RecordStore(Protocol):
    async def read(self, keys: Sequence[int]) -> list[bytes | None]:
        """At most MOST_WRITES keys."""
        ...

    async def write(self, writes: Sequence[Write]) -> list[Outcome | None]:
        """At most MOST_WRITES of them; None where the key did not hold what was expected.

        Raises DomainError(CAPACITY), nothing changed, when more records than allowed would be there.
        """
        ...

    async def scan(self, cursor: bytes, limit: int) -> Page: ...

    async def random_sample(self, n: int) -> list[int]: ...

    async def usage(self) -> IndexUsage: ...

    async def close(self) -> None: ...


def resolve(
    writes: Sequence[Write], held: Mapping[int, bytes | None]
) -> tuple[list[Outcome | None], dict[int, bytes | None]]:
    """Outcomes of a batch, and what the keys that were written hold after it."""
    after: dict[int, bytes | None] = {}
    outcomes: list[Outcome | None] = []
    for write in writes:
        now = after[write.key] if write.key in after else held[write.key]
        expected = write.expected
        if expected is Expected.SOMETHING and now is None:
            outcomes.append(Outcome.MISSING)
        elif not isinstance(expected, Expected) and expected != now:
            outcomes.append(None)
        elif write.record is None:
            outcomes.append(Outcome.MISSING if now is None else Outcome.DELETED)
            after[write.key] = None
        else:
            outcomes.append(Outcome.CREATED if now is None else Outcome.REPLACED)
            after[write.key] = write.record
    return outcomes, after


def full(max_records: int) -> DomainError:
    return DomainError(Code.CAPACITY, f"the index would pass max_key_count {max_records}")
