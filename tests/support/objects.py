"""Writes what an engine would: data at the places that a Start named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kvcm_platform.client import BlockingMetadataClient
from kvcm_platform.core.uris import DataUri, parse_uri
from tests.support.data_plane import found


def uris(locations: Iterable[bytes]) -> list[DataUri]:
    return [parse_uri(uri) for wire in locations for _, uri in found(wire).specs]


def put_objects(locations: Iterable[bytes]) -> None:
    put_at(uris(locations))


def write_blocks(client: BlockingMetadataClient, instance_id: str, keys: Sequence[int]) -> None:
    """A whole write of blocks that are all missing, by a client."""
    started = client.start_write(instance_id, keys)
    put_at(parse_uri(spec.uri) for location in started.locations for spec in location.specs)
    client.finish_write(instance_id, started.session_id, len(started.to_write_indexes))


def put_at(places: Iterable[DataUri]) -> None:
    for uri in places:
        os.makedirs(os.path.dirname(uri.path), exist_ok=True)
        descriptor = os.open(uri.path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, b"\x01" * uri.size, uri.offset)
        os.close(descriptor)
