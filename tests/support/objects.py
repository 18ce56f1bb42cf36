"""Writes what an engine would: data at the places that a Start named."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kvcm_platform.core.uris import DataUri, parse_uri
from tests.support.data_plane import found


def uris(locations: Iterable[bytes]) -> list[DataUri]:
    return [parse_uri(uri) for wire in locations for _, uri in found(wire).specs]


def put_objects(locations: Iterable[bytes]) -> None:
    for uri in uris(locations):
        os.makedirs(os.path.dirname(uri.path), exist_ok=True)
        descriptor = os.open(uri.path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, b"\x01" * uri.size, uri.offset)
        os.close(descriptor)
