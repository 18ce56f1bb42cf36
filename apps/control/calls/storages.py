"""Storages over AdminService."""

from __future__ import annotations

from apps.common.actor import Role
from apps.control import mapping
from apps.control.calls.call import Call, Rpc, done
from apps.storages.selectors import storage_entries
from apps.storages.services import storage_add, storage_remove, storage_set_enabled, storage_update
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.pb import admin_service_pb2 as pb


def add_storage(call: Call) -> pb.CommonResponse:
    config = call.required("storage")
    kind, spec = mapping.storage_kind_and_spec(config)
    settings = StorageSettings(check_storage_available_when_open=config.check_storage_available_when_open)
    storage = storage_add(
        acting=call.acting, name=config.global_unique_name, kind=kind, spec=spec, settings=settings
    )
    return done() if storage.is_available else done(f"added, but not available: {storage.health_message}")


def update_storage(call: Call) -> pb.CommonResponse:
    config = call.required("storage")
    kind, spec = mapping.storage_kind_and_spec(config)
    storage_update(
        acting=call.acting,
        name=config.global_unique_name,
        kind=kind,
        spec=spec,
        is_spec_complete=True,
        settings={"check_storage_available_when_open": config.check_storage_available_when_open},
        is_forced=call.request.force_update,
    )
    return done()


def enable_storage(call: Call) -> pb.CommonResponse:
    name = call.required_text("storage_unique_name")
    storage_set_enabled(acting=call.acting, name=name, is_enabled=True)
    return done()


def disable_storage(call: Call) -> pb.CommonResponse:
    name = call.required_text("storage_unique_name")
    storage_set_enabled(acting=call.acting, name=name, is_enabled=False)
    return done()


def remove_storage(call: Call) -> pb.CommonResponse:
    # The protocol lets a storage go that groups name; blocks on it still hold it.
    name = call.required_text("storage_unique_name")
    staying = storage_remove(acting=call.acting, name=name, may_be_named=True)
    return done("it goes when its last blocks are removed" if staying else "")


def list_storage(call: Call) -> pb.ListStorageResponse:
    # One that is being removed is gone for whoever removed it over the protocol.
    staying = [entry for entry in storage_entries() if not entry.is_leaving]
    return pb.ListStorageResponse(storage=[mapping.storage_config(entry) for entry in staying])


RPCS = (
    Rpc("AddStorage", add_storage, Role.OPERATOR, fields=mapping.STORAGE_FIELDS),
    Rpc("UpdateStorage", update_storage, Role.OPERATOR, fields=mapping.STORAGE_FIELDS),
    Rpc("EnableStorage", enable_storage, Role.OPERATOR),
    Rpc("DisableStorage", disable_storage, Role.OPERATOR),
    Rpc("RemoveStorage", remove_storage, Role.OPERATOR),
    Rpc("ListStorage", list_storage, Role.VIEWER),
)
