"""What the whole suite shares. Fixtures of one kind of test live in that folder's conftest."""

from __future__ import annotations

pytest_plugins = ("tests.support.valkey", "tests.support.mooncake")
