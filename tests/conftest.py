"""What the whole suite shares. Fixtures of one kind of test live in that folder's conftest."""

from __future__ import annotations

import hypothesis

pytest_plugins = ("tests.support.valkey", "tests.support.mooncake")

# How long an example takes says something about the machine, nothing about the code.
hypothesis.settings.register_profile(
    "platform", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("platform")
