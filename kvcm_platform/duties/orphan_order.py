"""What a search for orphans is told, and what it has to say."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.writes import MAX_WRITE_TIMEOUT

MIN_AGE_SECONDS = MAX_WRITE_TIMEOUT + 900
"""The longest write, and room for clocks that differ."""
SAMPLES = 1000
REASONS = 20


@dataclass(frozen=True, slots=True)
class OrphanOrder:
    """`owner` is `<installation>/<storage>` (storage.marker). Ages are in seconds."""

    storage: StorageEntry
    owner: str
    is_dry: bool = True
    min_age_seconds: float = MIN_AGE_SECONDS


@dataclass(frozen=True, slots=True)
class Sample:
    """One orphan. `written_at` is in unix seconds, None where the storage keeps no time."""

    name: str
    size_bytes: int
    written_at: float | None


@dataclass(slots=True)
class OrphanFigures:
    """What a search has seen and done so far; another thread may read it meanwhile."""

    phase: str = "waiting"
    owner: str = ""
    """Whose name the storage carries."""
    passes: int = 1
    pass_number: int = 0
    looked_at: int = 0
    referred: int = 0
    young: int = 0
    """Nothing refers to them, but a write may still be going on."""
    out_of_reach: int = 0
    """Of instances whose index cannot be read from here."""
    foreign: int = 0
    """Not named like ours, and left alone."""
    foreign_bytes: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0
    listed: int = 0
    """Blocks on the list of those whose records alone were dropped."""
    listed_bytes: int = 0
    listed_deleted: int = 0
    failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    folders: int = 0
    """Empty folders that were removed."""
    samples: list[Sample] = field(default_factory=list)

    def note_failure(self, reason: str) -> None:
        self.failed += 1
        if reason in self.reasons or len(self.reasons) < REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def note_orphan(self, sample: Sample) -> None:
        self.orphans += 1
        self.orphan_bytes += sample.size_bytes
        if len(self.samples) < SAMPLES:
            self.samples.append(sample)
