"""What changes the history."""

from .day import day_publish
from .growth import growth_refresh
from .rollup import history_prune, roll_up
from .sampler import Sampler

__all__ = ["Sampler", "day_publish", "growth_refresh", "history_prune", "roll_up"]
