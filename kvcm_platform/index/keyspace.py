"""Every key name in Redis, in one place. Nothing else spells a key.

Keys that change together share a hash tag, so one server-side function can change them at once,
on a single server and on a Cluster alike. Suffixes behind a tag are those of `index/lua`.
"""

from __future__ import annotations

REGISTRY = "{kvcm}:registry"
REGISTRY_LOG = REGISTRY + ":log"
REGISTRY_VERSION = REGISTRY + ":v"
GENERATION = "{kvcm}:generation"
ALIVE = "{kvcm}:alive"
"""Stamped each second by living processes with the server's clock (index/life.py)."""
VERIFYING = "{kvcm}:verifying"
"""How far the check of a rolled-back index has come: shard -> `life:cursor`, and `progress` -> JSON."""

FACTS = "kvcm:facts"
"""Capped stream of what happened (docs/architecture.md)."""
COUNTERS = "kvcm:counters"
GROUP_COUNTERS = "kvcm:group-counters"
"""Hash of what groups' limits allowed and refused: `<group>|<name>` -> number."""
PROCESSES = "kvcm:processes"
SUPERVISOR = "kvcm:supervisor"
OVERVIEW_HISTORY = "kvcm:overview:history"
"""Hash of the overview's curve: slot of two seconds -> JSON point, the last ten minutes."""
OVERVIEW_DAY = "kvcm:overview:day"
"""Figures of the last 24 hours as JSON, made anew each minute (apps/usage)."""
OVERVIEW_SAVINGS = "kvcm:overview:savings"
"""What this month saved so far as JSON, made anew each minute (apps/optimizer_reports)."""
WAKE = "kvcm:wake"
PLACED = "kvcm:placed"
"""Hash of what lies on a Redis of its own (index/placed.py)."""
LEAVING = "kvcm:leaving"
"""Hash of removed instances whose data is still being deleted: number -> JSON."""
LEAVING_SINCE = "kvcm:leaving:since"
"""When the duties first met each of them and how long its readers have: number -> `ms:delay ms`."""
HOMECOMING = "kvcm:homecoming"
"""Lease of the process that takes instances back whose index was in a metadata process."""
STORAGE_CHECKS = "kvcm:storage-checks"
"""Hash of requests to look at a storage's objects (index/storage_checks.py): number -> newest id."""
STORAGE_CHECKED = "kvcm:storage-checks:seen"
"""What became of them: number -> request id that is over; `<number>:lost`, `:left`, `:waiting`."""
STORAGE_WALKS = "kvcm:storage-walks"
"""How far the walk through each shard has come: shard -> `request id:cursor`."""
STORAGE_CLEARED_AT = "kvcm:storage-walks:at"
"""When the duties last looked for blocks on storages that are to be empty, in ms."""
STORAGE_STRAYS = "kvcm:storage-strays"
"""Numbers in the shards' usage that no storage had at the last look (duties/strays.py), as JSON."""
STORAGE_STRAYS_LOOKED = STORAGE_STRAYS + ":looked"
"""There until it is time for the next look."""
DAMAGE = "kvcm:damage"
"""Hash of shards and groups that lost single keys (index/damage.py): base key -> JSON, for a day."""
DAMAGE_SUSPECTS = DAMAGE + ":suspects"
"""What the last look found not to fit, as JSON: base key -> what seems to be lost."""
DAMAGE_LOOKED = DAMAGE + ":looked"
"""There until it is time for the next look."""
MEMORY_POLICIES = "kvcm:memory-policies"
"""What was last told of servers that may drop keys, as JSON: sentences."""
TRIMS = "kvcm:trims"
"""Hash of trims not yet finished: trim id -> JSON."""
TRIM_CURSORS = "kvcm:trims:cursors"
"""How far each has come: trim id -> cursor of the scan."""
GONE_TRIMMED = TRIMS + ":gone"
"""There until the streams of why blocks left are to be shortened again; like the leases of trims, where the
index is.
"""


def instance(number: int, shard: int) -> str:
    """Base key of one shard of an instance; holds usage, sequence, epoch and generation."""
    return f"{{{number:x}:{shard}}}"


def alive_beside(slot_number: int) -> str:
    """The stamp of one of several masters, by a number that makes it lie there."""
    return f"{{alive:{slot_number}}}:alive"


def blocks(base: str) -> str:
    return base + ":b"


def recency(base: str) -> str:
    return base + ":r"


def runs(base: str) -> str:
    return base + ":n"


def sessions(base: str) -> str:
    return base + ":w"


def session_deadlines(base: str) -> str:
    return base + ":wd"


def tickets(base: str) -> str:
    """Write sessions over several shards; all those of an instance are in its shard 0."""
    return base + ":t"


def ticket_deadlines(base: str) -> str:
    return base + ":td"


def open_sessions(number: int, shards: int) -> str:
    """Sorted set with one member per open write session of an instance."""
    base = instance(number, 0)
    return session_deadlines(base) if shards == 1 else ticket_deadlines(base)


def unpushed(base: str) -> str:
    return base + ":up"


def heat(base: str) -> str:
    """How often runs were used lately, where a policy brings blocks back (index/lua/3_heat.lua)."""
    return base + ":h"


def uses(base: str) -> str:
    """The same of all runs, in groups that give back what is used least (index/uses.py)."""
    return base + ":u"


def pending_due(base: str) -> str:
    return base + ":d"


def pending(base: str) -> str:
    return base + ":p"


def events(base: str) -> str:
    return base + ":e"


def gone(base: str) -> str:
    """Capped stream of why blocks left: field `w` -> reason, `k` -> packed keys (index/gone.py)."""
    return base + ":g"


def evictions(base: str) -> str:
    """Hash of what each reclaim run did in a shard and what became of it (index/evicting.py)."""
    return base + ":er"


def durable(base: str) -> str:
    """Written just before WAITAOF, so that the wait covers what came before it in this tag."""
    return base + ":a"


def all_of_instance(base: str) -> list[str]:
    """Keys of a shard that are deleted when the last data of a removed instance is gone."""
    suffixes = (
        *(blocks, recency, runs, sessions, session_deadlines, tickets, ticket_deadlines),
        *(unpushed, pending_due, pending, durable, events, heat, uses, gone, evictions),
    )
    return [base, *(suffix(base) for suffix in suffixes)]


def meta_index(name: str) -> str:
    """Base key of a MetaIndex's count over its shards."""
    return f"{{mi:{name}}}"


def meta_index_shard(name: str, shard: int) -> str:
    return f"{{mi:{name}:{shard}}}"


def group(number: int) -> str:
    return f"{{g:{number}}}"


def group_vectors(base: str) -> str:
    return base + ":v"


def group_limits(base: str) -> str:
    return base + ":l"


def group_reservations(base: str) -> str:
    return base + ":r"


def group_reservation_deadlines(base: str) -> str:
    return base + ":x"


def group_permits(base: str) -> str:
    return base + ":t"


def group_sessions(base: str) -> str:
    """Open write sessions of a group that limits them, by deadline."""
    return base + ":s"


def storage(number: int) -> str:
    return f"{{st:{number}}}"


def slot_files(base: str) -> str:
    return base + ":f"


def orphans(base: str) -> str:
    return base + ":o"


def pool_ranges(base: str) -> str:
    """Of a memory segment: places of its taken ranges by their ids, in buckets (index/lua/9_pool.lua)."""
    return base + ":i"


def pool_runs(base: str) -> str:
    return base + ":s"


def pool_runs_with_room(base: str, slot_bytes: int) -> str:
    return f"{base}:h{slot_bytes}"


def pool_leases(base: str) -> str:
    return base + ":l"


def pool_lease_deadlines(base: str) -> str:
    return base + ":ld"


LATE_DELETIONS = "kvcm:deletions:late"
"""Hash of storages on which nothing can be deleted: `<number>:since` -> unix ms, `<number>:why` -> reason."""
UNREADABLE_DELETIONS = "kvcm:deletions:unreadable"
"""Hash of entries of lists of deletions that make no sense: `<base key>|<member in hex>` -> JSON."""
FAULTS = "kvcm:faults"
"""Hash of the faults that DebugService injected (index/faults.py)."""
REQUEST_SWITCHES = "kvcm:requests:switches"
"""Hash of what metadata processes tell of calls (index/request_switches.py): `e:<group number>` -> JSON for
the online estimate, `c:<capture id>` -> JSON for a capture."""
ESTIMATES = "kvcm:estimates"
"""Hash of the newest online estimates: group number -> JSON (apps/optimizer_reports)."""
ESTIMATES_LEASE = "{kvcm:estimates}:running"

TOKENS = "kvcm:tokens"
"""Hash of the API tokens that may use the data plane: SHA-256 -> JSON {role, groups, expires_at}."""

COPIES_LEASE = "{kvcm:copies}:running"
COPIES_QUEUED = "kvcm:copies:queued"
COPY_CURSORS = "kvcm:copies:cursors"
"""How far migrations have gone through shards: `<migration>|<shard>` -> JSON (index/ages.py)."""
COPY_TOTALS = "kvcm:copies:totals"
"""Hash of what migrations did: `<group>|<direction>|<name>` -> number."""
COPY_PACE = "kvcm:copies:pace"
"""When migrations with a limit may go on: `<migration>` -> ms."""
RECLAIM_QUEUED = "kvcm:reclaim:queued"
RECLAIM_WANTED = "kvcm:reclaim:wanted"
"""Limits that Starts were refused for (index/waking.py): `<group>|<scope>|<name>`, scored by the most that
one of them asked for (bytes; of keys blocks)."""
RECLAIM_OPEN = "kvcm:reclaim:open"
"""Hash of the reclaim runs that still choose blocks: `<group number>:<kind>`, or of one that somebody asked
for `<group number>:<run id>` -> JSON (core/reclaim/open_run.py)."""
RECLAIM_LAST = "kvcm:reclaim:last"
"""When the last automatic run of a group began: `<group number>:<kind>` -> ms."""
RECLAIM_SETTLING = "kvcm:reclaim:settling"
"""Hash of those whose blocks wait for their deletion: run id -> JSON."""
RECLAIM_REQUESTS = "kvcm:reclaim:requests"
"""Hash of runs that somebody asked for: run id -> JSON."""
RECLAIM_CANCELS = "kvcm:reclaim:cancels"
"""Set of the ids of runs that are to end."""
RECLAIM_REPORTS = "kvcm:reclaim:reports"
"""Capped stream of what became of runs, each entry the whole state of one: field `d` -> JSON."""
RECLAIM_TROUBLES = "kvcm:reclaim:troubles"
"""Hash of groups of which nothing can be reclaimed: group name -> JSON {since, reason}."""
STORAGE_ROUND_LEASE = "{kvcm:storages}:checking"
"""Held by the worker that checks all storages; one round at a time."""
DUTIES_LEASE = "{kvcm:duties}:running"
DUTIES_QUEUED = "kvcm:duties:queued"
LEADER = "kvcm:leader"
"""`<node id>|<nonce>` of the control process that holds the background duties."""
LEADER_FENCE = "kvcm:leader:fence"
"""Counts the leaderships; a duty carries its number, so that work of a former leader can be refused."""


def demoted(node_id: str) -> str:
    """Exists while LeaderDemote keeps this node from answering; expires by itself."""
    return f"kvcm:demoted:{node_id}"


def sampled_requests(group_number: int) -> str:
    """Capped stream of the sampled calls of a group's instances (index/request_entries.py)."""
    return f"kvcm:requests:sampled:{group_number}"


def captured_requests(capture_id: str) -> str:
    """Capped stream of the calls that a capture is for (index/request_entries.py)."""
    return f"kvcm:requests:captured:{capture_id}"


def estimate_state(group_number: int) -> str:
    """What the online estimate of a group knows, its position in the stream included."""
    return f"kvcm:estimates:{group_number}"


def reclaim_lease(group_number: int) -> str:
    """Held by the one who reclaims of a group; its fencing numbers are of the duty `reclaim`."""
    return f"{{kvcm:reclaim:{group_number}}}:running"
