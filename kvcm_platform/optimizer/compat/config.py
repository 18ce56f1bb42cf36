"""The reference simulator's configuration file (WIRE.md F 7.1), so that its users can run theirs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat.settings import (
    EvictionMode,
    ReferenceGroup,
    ReferenceInstance,
    ReferencePolicy,
    ReferenceSettings,
)

MOST_CONFIG_BYTES = 1 << 20
_NEWER_MEMBERS = ("tier_strategy", "tier_flows", "ttl_config", "default_block_ttl_seconds")
"""Of groups in later versions of the reference, which count quotas in GB and have tiers."""


@dataclass(frozen=True, slots=True)
class ReferenceConfig:
    """`trace_type` is publisher_log, qwen_bailian, optimizer_schema, or a name of ours (`SourceFormat`)."""

    trace_path: Path
    trace_type: str
    output_path: Path
    settings: ReferenceSettings


def load_config(path: Path) -> ReferenceConfig:
    """Raises OSError, and INVALID_ARGUMENT with the member that is wrong."""
    with path.open("rb") as file:
        text = file.read(MOST_CONFIG_BYTES + 1)
    if len(text) > MOST_CONFIG_BYTES:
        raise invalid("config", f"{path.name} is larger than {MOST_CONFIG_BYTES} bytes")
    try:
        return parse_config(json.loads(text))
    except ValueError as error:
        raise invalid("config", f"{path.name} is no JSON: {error}") from error


def parse_config(data: object) -> ReferenceConfig:
    """What changes no result (bandwidths, priorities, block sizes) is not read."""
    config = _Member("config", data)
    eviction = config["eviction_params"]
    mode = eviction["eviction_mode"].whole()
    if mode not in tuple(EvictionMode):
        raise invalid("eviction_params.eviction_mode", f"{mode} is not 1, 2 or 3")
    groups = tuple(_group(group) for group in config["instance_groups"].items())
    if not groups:
        raise invalid("instance_groups", "there is no group")
    return ReferenceConfig(
        trace_path=Path(config["trace_file_path"].text()),
        trace_type=config["trace_type"].text(),
        output_path=Path(config["output_result_path"].text()),
        settings=ReferenceSettings(
            groups, EvictionMode(mode), eviction.get("eviction_batch_size_per_instance", 100).whole()
        ),
    )


def _group(group: _Member) -> ReferenceGroup:
    for name in _NEWER_MEMBERS:
        if group.has(name):
            raise invalid(
                f"{group.name}.{name}",
                "this is a configuration of a later version of the reference, whose quotas are in GB;"
                " quota_capacity must be in blocks",
            )
    storages = group["storages"].items()
    if not storages:
        raise invalid(f"{group.name}.storages", "at least one storage is needed")
    is_by_tier = group.get("hierarchical_eviction_enabled", False).flag()
    return ReferenceGroup(
        name=group["group_name"].text(),
        # Of several tiers only the first one has an effect in the reference.
        capacity=storages[0]["capacity"].whole() if is_by_tier else group["quota_capacity"].whole(),
        used_percentage=group["used_percentage"].number(),
        instances=tuple(_instance(instance) for instance in group["instances"].items()),
    )


def _instance(instance: _Member) -> ReferenceInstance:
    policy = instance["eviction_policy_type"]
    if policy.text() not in tuple(ReferencePolicy):
        known = ", ".join(ReferencePolicy)
        raise invalid(policy.name, f"{policy.text()!r} is none of {known}")
    instance_id = instance["instance_id"].text()
    # It becomes the name of a file.
    if not instance_id or instance_id in (".", "..") or any(sign in instance_id for sign in "/\\\0"):
        raise invalid(f"{instance.name}.instance_id", f"{instance_id!r} cannot be part of a file's name")
    return ReferenceInstance(
        instance_id=instance_id,
        policy=ReferencePolicy(policy.text()),
        sample_rate=instance.get("eviction_policy_params", {}).get("sample_rate", 0.1).number(),
    )


@dataclass(frozen=True, slots=True)
class _Member:
    """A value of the file and the name it is known by in errors."""

    name: str
    value: object

    def _child(self, name: str, value: object) -> _Member:
        return _Member(name if self.name == "config" else f"{self.name}.{name}", value)

    def _members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise invalid(self.name, "this must be an object")
        return self.value

    def has(self, name: str) -> bool:
        return name in self._members()

    def __getitem__(self, name: str) -> _Member:
        members = self._members()
        if name not in members:
            raise invalid(self._child(name, None).name, "this is missing")
        return self._child(name, members[name])

    def get(self, name: str, default: object) -> _Member:
        return self._child(name, self._members().get(name, default))

    def items(self) -> list[_Member]:
        if not isinstance(self.value, list):
            raise invalid(self.name, "this must be a list")
        return [_Member(f"{self.name}[{at}]", value) for at, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise invalid(self.name, "this must be a text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise invalid(self.name, "this must be true or false")
        return self.value

    def whole(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise invalid(self.name, "this must be a whole number")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise invalid(self.name, "this must be a number")
        return float(self.value)
