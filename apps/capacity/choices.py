"""States of reclaim runs, in the form that model fields and serializers take."""

from apps.common.choices import choices_of
from kvcm_platform.core.reclaim.runs import ENDED, RunState, Trigger

ENDED_STATES = tuple(sorted(state.value for state in ENDED))
OPEN_STATES = tuple(state.value for state in RunState if state not in ENDED)
RECLAIM_STATES = choices_of(RunState)
TRIGGERS = choices_of(Trigger)
