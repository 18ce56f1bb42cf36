"""`hf3fs`: a mounted 3FS is a directory like any other, slot files, holes and all, below its mountpoint."""

from __future__ import annotations

from kvcm_platform.core.uris import file_root

from .backend import StorageKind
from .mounted import CAPABILITIES, MountedBackend, probe_mountpoint
from .tidy import tidy

KIND = StorageKind(CAPABILITIES, MountedBackend, probe_mountpoint, file_root, tidy)
