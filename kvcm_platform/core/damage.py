"""Which keys of a shard are lost, seen by what the others hold.

A server with a foreign `maxmemory-policy` drops keys one by one. All that a shard holds changes in one
function call, so as of one moment its keys fit each other, unless one of them went by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Lost(StrEnum):
    """What is missing, in words that an operator knows."""

    BLOCKS = "blocks"
    RUNS = "runs"
    RECENCY = "recency order"
    USAGE = "usage"
    DELETIONS = "pending deletions"
    DUE_TIMES = "due times of deletions"
    SESSIONS = "write sessions"
    DEADLINES = "deadlines of write sessions"
    TICKETS = "write sessions over several shards"
    TICKET_DEADLINES = "deadlines of write sessions over several shards"
    TOTALS = "totals of the group"
    LIMITS = "limits of the group"
    RESERVATIONS = "reservations of the group"


SESSION_FIELDS = (2, 5)
"""Fewest and most fields of one session (index/lua/2_sessions.lua)."""
TICKET_FIELDS = (2, 4)
"""Of one ticket, beside one field for all (index/lua/2_tickets.lua)."""
SPREAD_SLACK = 1.1
"""By so much locations a block may grow since they were counted before somebody counts again."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """How much each key of a shard holds.

    `writing`, `serving` and `pending` are the usage's, in locations.
    """

    blocks: int = 0
    runs: int = 0
    recency: int = 0
    due_times: int = 0
    deletions: int = 0
    session_fields: int = 0
    deadlines: int = 0
    ticket_fields: int = 0
    ticket_deadlines: int = 0
    writing: int = 0
    serving: int = 0
    pending: int = 0
    sequence: int = 0
    generation: int = 0
    spread: int = 1000
    """Locations of a thousand blocks when they were last counted."""
    unlisted: int = 0
    """Of some blocks, those that their run does not know."""
    dangling: int = 0
    """Of some runs, those of a block that is gone."""

    def lost(self) -> frozenset[Lost]:
        """What does not fit. `blocks` may be named for blocks with more locations than when last counted."""
        live = self.writing + self.serving
        found: set[Lost] = set()
        most = self.blocks * self.spread / 1000 * (SPREAD_SLACK if self.spread > 1000 else 1.0)
        if live > most or self.dangling or (self.runs and not self.blocks):
            found.add(Lost.BLOCKS)
        if self.blocks > live + self.pending:
            found.add(Lost.USAGE)
        if self.runs < self.recency or self.unlisted or (self.blocks and not self.runs):
            found.add(Lost.RUNS)
        if self.recency < self.runs:
            found.add(Lost.RECENCY)
        if self.due_times < self.deletions:
            found.add(Lost.DUE_TIMES)
        if self.deletions < max(self.due_times, self.pending):
            found.add(Lost.DELETIONS)
        is_alone = self.writing and not self.deadlines and not self.session_fields
        if self.session_fields < self.deadlines * SESSION_FIELDS[0] or is_alone:
            found.add(Lost.SESSIONS)
        if self.session_fields > self.deadlines * SESSION_FIELDS[1]:
            found.add(Lost.DEADLINES)
        if self.ticket_fields < self.ticket_deadlines * TICKET_FIELDS[0]:
            found.add(Lost.TICKETS)
        if self.ticket_fields > self.ticket_deadlines * TICKET_FIELDS[1] + 1:
            found.add(Lost.TICKET_DEADLINES)
        return frozenset(found)
