"""`dummy`: a local directory, for trials and tests without a storage system; nothing has to be mounted."""

from __future__ import annotations

from dataclasses import replace

from kvcm_platform.core.uris import file_root

from .backend import StorageKind
from .mounted import CAPABILITIES, MountedBackend, probe_directory
from .tidy import tidy

KIND = StorageKind(replace(CAPABILITIES, needs_mount=False), MountedBackend, probe_directory, file_root, tidy)
