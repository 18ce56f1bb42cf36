"""Policies other than the one-pass curves: one replay for each capacity."""

from kvcm_platform.optimizer.policies.registry import POLICIES, Policy
from kvcm_platform.optimizer.policies.simulation import simulate

__all__ = ["POLICIES", "Policy", "simulate"]
