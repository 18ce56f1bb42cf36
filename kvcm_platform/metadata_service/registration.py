"""Registration of instances: answered from the registry where it is a repetition, else by control."""

from __future__ import annotations

import asyncio
from typing import Any

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.storage_configs import storage_configs
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.pb import admin_service_pb2 as admin_pb

from . import mapping
from .control_link import ControlLink


class Registrar:
    def __init__(self, mirror: RegistryMirror, control: ControlLink) -> None:
        self._mirror = mirror
        self._control = control
        self._registering: dict[bytes, asyncio.Future[None]] = {}

    async def register(self, request: Any) -> InstanceEntry:
        """`request` is RegisterInstanceRequest of either package. Raises what control refuses with."""
        known = await self._mirror.instance(request.instance_id)
        if known is not None and known.identity() == mapping.registration_identity(request):
            return known
        await self._register_at_control(request)
        known = await self._mirror.instance(request.instance_id)
        if known is None:
            raise DomainError(Code.NOT_READY, "the instance was registered and removed; register again")
        return known

    async def _register_at_control(self, request: Any) -> None:
        """Identical registrations in flight share one call: a thousand engines may start at once."""
        message = admin_pb.RegisterInstanceRequest.FromString(request.SerializeToString())
        trace_id, message.trace_id = message.trace_id, ""
        name = message.SerializeToString(deterministic=True)
        shared = self._registering.get(name)
        if shared is None:
            message.trace_id = trace_id

            async def register() -> None:
                await self._control.register(message)
                await self._mirror.refresh()

            shared = self._registering[name] = asyncio.ensure_future(register())
            shared.add_done_callback(lambda _: self._registering.pop(name, None))
        await asyncio.shield(shared)

    def storage_configs(self, instance: InstanceEntry) -> str:
        """What the client learns of its group's storages (WIRE.md 2.2)."""
        registry = self._mirror.current
        group = registry.groups.get(instance.group)
        return storage_configs(registry.storages_of(group) if group is not None else [])

    def quota_group(self, instance: InstanceEntry) -> str:
        group = self._mirror.current.groups.get(instance.group)
        return group.global_quota_group_name if group is not None else ""
