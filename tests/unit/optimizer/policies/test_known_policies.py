"""What web processes know of policies without loading compiled code is what the computations have."""

from __future__ import annotations

from kvcm_platform.optimizer.analysis.known_policies import KNOWN_POLICIES
from kvcm_platform.optimizer.compat import PARAMETERS, PREFIX, ReferencePolicy
from kvcm_platform.optimizer.policies import POLICIES

ONE_PASS = {"ttl", "belady"}


def test_names() -> None:
    of_reference = {f"{PREFIX}{policy}" for policy in ReferencePolicy}
    assert set(KNOWN_POLICIES) == ONE_PASS | set(POLICIES) | of_reference
    assert {name for name, known in KNOWN_POLICIES.items() if known.is_compatible} == of_reference


def test_parameters_descriptions_and_holes() -> None:
    for name, policy in POLICIES.items():
        known = KNOWN_POLICIES[name]
        assert known.description == policy.description
        assert dict(known.parameters) == dict(policy.parameters)
        assert known.has_holes is not policy.closed_deep
    for policy in ReferencePolicy:
        assert dict(KNOWN_POLICIES[f"{PREFIX}{policy}"].parameters) == dict(PARAMETERS)
