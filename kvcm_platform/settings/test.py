"""Settings of the test suite: a data dir of its own for each process, nothing outside it is touched."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_DATA_DIR = Path(tempfile.mkdtemp(prefix="kvcm-test-"))
atexit.register(shutil.rmtree, _DATA_DIR, ignore_errors=True)
os.environ["KVCM_DATA_DIR"] = str(_DATA_DIR)

from kvcm_platform.settings.base import *  # noqa: E402, F403
from kvcm_platform.settings.base import DATABASES  # noqa: E402

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # In a file: threads of the servers under test need connections of their own.
    DATABASES["default"]["TEST"] = {"NAME": str(_DATA_DIR / "test.sqlite3")}

# A connection kept by a server's thread would keep the test database from being dropped.
DATABASES["default"]["CONN_MAX_AGE"] = 0

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
