"""States of migrations, in the form that model fields and serializers take."""

from enum import StrEnum

from apps.common.choices import choices_of
from kvcm_platform.core.migration import Direction
from kvcm_platform.core.types import Retention


class RunState(StrEnum):
    """A run waits for its first round, is worked on in rounds, and ends in one of three ways."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


OPEN_STATES = (RunState.QUEUED, RunState.RUNNING)
RUN_STATES = choices_of(RunState)
DIRECTIONS = choices_of(Direction)
RETENTIONS = choices_of(Retention)
