"""Storages, groups and instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.instances.selectors import GroupDetail
from apps.instances.services import group_create, instance_register
from apps.storages.models import Storage
from apps.storages.services import storage_add
from kvcm_platform.core.registry import (
    InstanceEntry,
    LocationSpecGroup,
    LocationSpecInfo,
    ModelDeployment,
    Quota,
)
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.core.validation.instances import Registration
from kvcm_platform.core.validation.storages import StorageSettings
from tests.factories.actors import ADMIN


def make_storage(root: Path, name: str = "nfs_a", **settings: Any) -> Storage:
    """An NFS storage in a folder of its own below `root`."""
    return storage_add(
        acting=ADMIN,
        name=name,
        kind=StorageType.NFS,
        spec={"root_path": str(root / name)},
        settings=StorageSettings(**settings),
    )


def group_settings(**changes: Any) -> GroupSettings:
    values: dict[str, Any] = {"storage_candidates": ("nfs_a",), "quota": Quota(capacity_bytes=1_000_000)}
    return GroupSettings(**{**values, **changes})


def make_group(name: str = "chat", **settings: Any) -> GroupDetail:
    return group_create(acting=ADMIN, name=name, settings=group_settings(**settings)).detail


def registration(instance_id: str = "model-a", group: str = "chat", **changes: Any) -> Registration:
    values: dict[str, Any] = {
        "instance_group": group,
        "instance_id": instance_id,
        "block_size": 16,
        "location_spec_infos": (LocationSpecInfo("tp0", 1024), LocationSpecInfo("tp1", 1024)),
        "location_spec_groups": (LocationSpecGroup("full", ("tp0", "tp1")),),
        "model_deployment": ModelDeployment(model_name="llama", dtype="bf16", tp_size=2),
    }
    return Registration(**{**values, **changes})


def make_instance(instance_id: str = "model-a", group: str = "chat") -> InstanceEntry:
    return instance_register(acting=ADMIN, registration=registration(instance_id, group)).entry
