"""The reference simulator's results, bit for bit: its policies, eviction modes, configuration and tables.

"The reference" is the optimizer of the open-source Tair KVCache Manager (OPTIMIZER.md 2, WIRE.md F), whose
sources the rules were read from. Its policies are no stack algorithms: each capacity is one replay.
"""

from kvcm_platform.optimizer.compat.curves import PARAMETERS, PREFIX, reference_curve
from kvcm_platform.optimizer.compat.settings import (
    EvictionMode,
    ReferenceGroup,
    ReferenceInstance,
    ReferencePolicy,
    ReferenceSettings,
)

__all__ = [
    "PARAMETERS",
    "PREFIX",
    "EvictionMode",
    "ReferenceGroup",
    "ReferenceInstance",
    "ReferencePolicy",
    "ReferenceSettings",
    "reference_curve",
]
