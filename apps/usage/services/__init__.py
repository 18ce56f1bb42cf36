"""What changes the history."""

from .rollup import history_prune, roll_up
from .sampler import Sampler

__all__ = ["Sampler", "history_prune", "roll_up"]
