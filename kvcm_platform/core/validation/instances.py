"""Rules for registrations of instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import (
    VALUE_MODEL,
    VALUE_SPEC,
    LocationSpecGroup,
    LocationSpecInfo,
    ModelDeployment,
)
from kvcm_platform.core.types import QueryType

from .values import INT32, check_key_part, number, text

MAX_SPECS = 4096
MAX_SPEC_GROUPS = 127
"""Records keep the number of a block's spec group in one byte, 0 for all specs."""
MAX_BLOCK_BYTES = (1 << 48) - 1
"""Records keep the size of a block, all its specs together, in six bytes."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What an engine says of itself when it registers."""

    instance_group: str
    instance_id: str
    block_size: int
    location_spec_infos: tuple[LocationSpecInfo, ...]
    location_spec_groups: tuple[LocationSpecGroup, ...]
    model_deployment: ModelDeployment
    default_query_type: int = 0


def check_registration(registration: Registration) -> Registration:
    """Accept a registration, or raise INVALID_ARGUMENT with the field at fault."""
    text("instance_group", registration.instance_group, is_required=True, at_most=128)
    check_key_part(registration.instance_id, field="instance_id", may_nest=True)
    number("block_size", registration.block_size, 1, INT32)
    text("model_deployment.model_name", registration.model_deployment.model_name, is_required=True)
    text("model_deployment.dtype", registration.model_deployment.dtype, is_required=True)
    if registration.model_deployment.model_name == VALUE_MODEL:
        _check_value_form(registration)
    _check_specs(registration.location_spec_infos, registration.location_spec_groups)
    if registration.default_query_type not in set(QueryType):
        raise invalid("default_query_type", "is not a query type")
    return registration


def _check_value_form(registration: Registration) -> None:
    names = [info.name for info in registration.location_spec_infos]
    is_whole = registration.block_size == 1 and names == [VALUE_SPEC]
    if not is_whole or registration.location_spec_groups:
        raise invalid("model_deployment.model_name", f"{VALUE_MODEL} is reserved for keys and values")


def _check_specs(infos: Sequence[LocationSpecInfo], groups: Sequence[LocationSpecGroup]) -> None:
    if not infos:
        raise invalid("location_spec_infos", "must have at least one entry")
    if len(infos) > MAX_SPECS:
        raise invalid("location_spec_infos", f"must have at most {MAX_SPECS} entries")
    names: set[str] = set()
    for info in infos:
        check_key_part(info.name, field="location_spec_infos.name")
        number("location_spec_infos.size", info.size, 1, MAX_BLOCK_BYTES)
        if info.name in names:
            raise invalid("location_spec_infos", f"names {info.name} twice")
        names.add(info.name)
    if sum(info.size for info in infos) > MAX_BLOCK_BYTES:
        raise invalid("location_spec_infos.size", f"must be at most {MAX_BLOCK_BYTES} in total")
    if len(groups) > MAX_SPEC_GROUPS:
        raise invalid("location_spec_groups", f"must have at most {MAX_SPEC_GROUPS} entries")
    group_names = [group.name for group in groups]
    if "" in group_names or len(set(group_names)) < len(group_names):
        raise invalid("location_spec_groups", "every group must have a name of its own")
    for group in groups:
        if not group.spec_names or len(set(group.spec_names)) < len(group.spec_names):
            raise invalid(
                "location_spec_groups", f"group {group.name} must name at least one spec, each once"
            )
        unknown = sorted(set(group.spec_names) - names)
        if unknown:
            raise invalid(
                "location_spec_groups", f"group {group.name} names unknown specs: {', '.join(unknown)}"
            )
