"""`nfs` (scheme `file`): any directory that every host has at the same path."""

from __future__ import annotations

from kvcm_platform.core.uris import file_root

from .backend import StorageKind
from .mounted import CAPABILITIES, MountedBackend, probe_directory
from .tidy import tidy

KIND = StorageKind(CAPABILITIES, MountedBackend, probe_directory, file_root, tidy)
