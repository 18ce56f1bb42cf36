"""How an RPC of the data plane is listed; every transport serves what the lists say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvcm_platform.pb import meta_service_pb2 as pb

META_SERVICE = pb.DESCRIPTOR.services_by_name["MetaService"].full_name
DESERIALIZING = "Exception deserializing request!"
"""Of bytes that are no message: INTERNAL, as gRPC's table of statuses says."""
Handler = Callable[[Any, str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method: its messages and what carries it out.

    All requests have `trace_id`, all answers `header` with the numbers of the meta package.
    """

    name: str
    request: type[Any]
    response: type[Any]
    handle: Handler
    is_gated: bool = True
    at_once: Callable[[Any], list[bytes] | None] | None = None
    """What follows the answer's header, where that needs no I/O."""
    service: str = META_SERVICE
    http_prefix: str = "/api/"
    fact_prefix: str = ""
    """Before the name in facts: services have methods of one name."""
    timed: str = ""
    """Under which of `facts.TIMED` a call that succeeds counts for its instance; "" = it does not."""
    codes: Mapping[int, int] = field(default_factory=dict)
    """Error codes that the service's package does not have -> those that stand for them."""

    @property
    def http_path(self) -> str:
        return f"{self.http_prefix}{self.name[0].lower()}{self.name[1:]}"
