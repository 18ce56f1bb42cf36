"""The index in the metadata process: what the suites that run over both kinds of index do not show."""

from __future__ import annotations

import re
from pathlib import Path

from kvcm_platform import index
from kvcm_platform.index.local.server import FUNCTIONS, LEASE_FUNCTIONS

OF_REDIS = {"kvcm_version", "kvcm_generation", "kvcm_publish"}


def test_every_function_of_the_server_has_a_twin():
    """But for what concerns Redis itself, the registry, which stays there, and MetaIndex."""
    sources = Path(index.__file__).parent.glob("lua/*.lua")
    names = {name for path in sources for name in re.findall(r"^register\('(\w+)'", path.read_text(), re.M)}
    here = {name for name in names if not name.startswith("kvcm_meta_")} - OF_REDIS
    assert here == FUNCTIONS.keys() | LEASE_FUNCTIONS
