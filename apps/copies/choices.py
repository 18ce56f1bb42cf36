"""States of migrations, in the form that model fields and serializers take."""

from enum import StrEnum

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
RUN_STATES = [(state.value, state.value) for state in RunState]
DIRECTIONS = [(direction.value, direction.value) for direction in Direction]
RETENTIONS = [(retention.value, retention.value) for retention in Retention]
