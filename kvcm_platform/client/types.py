"""What goes into and comes out of the clients: plain frozen values, no protocol messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from kvcm_platform.core.registry import LocationSpecGroup, LocationSpecInfo, ModelDeployment
from kvcm_platform.pb import meta_service_pb2 as pb

Mask = int | Sequence[bool]
"""Which blocks of a list are masked: the first n, or one truth value for each."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One named part of a block. `uri` is empty in a placeholder."""

    name: str
    uri: str


@dataclass(frozen=True, slots=True)
class Location:
    """Where one copy of a block lives. `type` is the protocol's name, for example "ST_NFS"."""

    type: str
    specs: tuple[Spec, ...]
    spec_size: int = 0
    """Number of parts the block has, also where a filter left some out of `specs`."""

    @property
    def is_placeholder(self) -> bool:
        """Whether it stands for a missing block."""
        return self.type == "ST_UNSPECIFIED"


class Locations(Sequence[Location]):
    """The locations of an answer. Values are made when they are asked for, so that counting the
    hits of a long prompt costs nothing per block.
    """

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[pb.CacheLocation] = ()) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Location: ...
    @overload
    def __getitem__(self, index: slice) -> Locations: ...
    def __getitem__(self, index: int | slice) -> Location | Locations:
        if isinstance(index, slice):
            return Locations(self._messages[index])
        message = self._messages[index]
        return Location(
            type=pb.StorageType.Name(message.type),
            specs=tuple(Spec(spec.name, spec.uri) for spec in message.location_specs),
            spec_size=message.spec_size,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Iterable):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Locations({list(self)!r})"

    def parts(self) -> list[list[tuple[str, str]]]:
        """(spec name, URI) of each location; the cheap way through a long answer."""
        return [[(spec.name, spec.uri) for spec in m.location_specs] for m in self._messages]


@dataclass(frozen=True, slots=True)
class StartedWrite:
    """An open write session.

    `mask` says which of the asked blocks need no write. `locations[i]` belongs to the asked block
    `to_write_indexes[i]`; the mask given to `finish_write` has one entry for each of them.
    """

    session_id: str
    mask: int | tuple[bool, ...]
    locations: Locations
    to_write_indexes: Sequence[int]


@dataclass(frozen=True, slots=True)
class FoundValues:
    """One location and one truth value for each key that was asked for."""

    locations: Locations
    hits: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class StartedPut:
    """An open write session of values.

    `mask` says which of the keys need no write. `locations[i]` belongs to the key
    `to_write_indexes[i]`; what `put_finish` is given has one entry for each of them.
    """

    session_id: str
    mask: tuple[bool, ...]
    locations: Locations
    to_write_indexes: Sequence[int]


@dataclass(frozen=True, slots=True)
class KvInstanceInfo:
    instance_group: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class Registration:
    """An engine's description of itself. Equal registrations may be repeated at any time."""

    instance_group: str
    instance_id: str
    block_size: int
    """Tokens per block."""
    location_spec_infos: tuple[LocationSpecInfo, ...]
    """Name and bytes of each part of a block."""
    model_deployment: ModelDeployment
    location_spec_groups: tuple[LocationSpecGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    instance_group: str
    instance_id: str
    block_size: int
    location_spec_infos: tuple[LocationSpecInfo, ...]
    location_spec_groups: tuple[LocationSpecGroup, ...]
    model_deployment: ModelDeployment


@dataclass(frozen=True, slots=True)
class BlockMeta:
    """One block as the index holds it. `status` is for example "CLS_SERVING"."""

    location: Location
    status: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Who answered, and which node does the background duties."""

    self_node_id: str
    leader_node_id: str
    leader_host: str = ""
    leader_meta_rpc_port: int = 0
    leader_meta_http_port: int = 0
