"""The protocol files against tables transcribed from the protocol's description.

`proto_tables/<package>.txt` holds the base protocol, `<package>_later.txt` what later clients
added. A line is a message ("Name: field=1 type; …"), an enum or a service. The comparison is
exact: a missing field, a wrong number and a field that the tables do not know all fail.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor

from kvcm_platform.pb import (
    admin_service_pb2,
    debug_service_pb2,
    kv_meta_service_pb2,
    kvcm_v1_pb2,
    meta_service_pb2,
)

TABLES = Path(__file__).parent / "proto_tables"
FILES: dict[str, FileDescriptor] = {
    "meta": meta_service_pb2.DESCRIPTOR,
    "admin": admin_service_pb2.DESCRIPTOR,
    "debug": debug_service_pb2.DESCRIPTOR,
    "kv_meta": kv_meta_service_pb2.DESCRIPTOR,
    "kvcm_v1": kvcm_v1_pb2.DESCRIPTOR,
}
PACKAGES = {name: f"kv_cache_manager.proto.{name}" for name in FILES} | {"kvcm_v1": "kvcm.v1"}
"""The base protocol's, and our own for what it lacks."""
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_DOUBLE: "double",
}

Tables = dict[str, dict[str, object]]


def read_tables(package: str) -> Tables:
    """Everything the tables say about a package, by "message X", "enum X" or "service X"."""
    expected: Tables = defaultdict(dict)
    for path in (TABLES / f"{package}.txt", TABLES / f"{package}_later.txt"):
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            head, _, body = line.partition(": ")
            if head.startswith("enum "):
                entries = dict(entry.split("=") for entry in body.split(", "))
                expected[head] |= {name: int(number) for name, number in entries.items()}
            elif head.startswith("service "):
                calls = re.findall(r"(\w+)\((\w+)\)→(\w+)", body)
                expected[head] |= {name: (request, response) for name, request, response in calls}
            else:
                fields = [] if body == "no fields" else body.split("; ")
                parsed = [re.fullmatch(r"(\w+)=(\d+) (.+)", text) for text in fields]
                expected[f"message {head}"] |= {m[1]: (int(m[2]), m[3]) for m in parsed if m}
                assert all(parsed), line
    return expected


def describe_field(field: FieldDescriptor) -> tuple[int, str]:
    kind = SCALARS.get(field.type, "")
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return field.number, f"map {SCALARS[entry['key'].type]} {SCALARS[entry['value'].type]}"
    if field.message_type is not None:
        kind = field.message_type.name
    elif field.enum_type is not None:
        kind = field.enum_type.name
    prefix = "rep " if field.is_repeated else ""
    suffix = f" (oneof {field.containing_oneof.name})" if field.containing_oneof else ""
    return field.number, f"{prefix}{kind}{suffix}"


def describe(file: FileDescriptor) -> Tables:
    found: Tables = {}
    for message in file.message_types_by_name.values():
        found[f"message {message.name}"] = {f.name: describe_field(f) for f in message.fields}
    for enum in file.enum_types_by_name.values():
        found[f"enum {enum.name}"] = {v.name: v.number for v in enum.values}
    for service in file.services_by_name.values():
        found[f"service {service.name}"] = {
            m.name: (m.input_type.name, m.output_type.name) for m in service.methods
        }
    return found


@pytest.mark.parametrize("package", FILES)
def test_names_numbers_and_types_are_those_of_the_tables(package: str) -> None:
    expected, found = read_tables(package), describe(FILES[package])
    assert found.keys() == expected.keys()
    for name, members in expected.items():
        assert found[name] == members, name


@pytest.mark.parametrize("package", FILES)
def test_package_and_syntax(package: str) -> None:
    file = FILES[package]
    assert file.package == PACKAGES[package]
    oneofs = [o for m in file.message_types_by_name.values() for o in m.oneofs]
    assert not [o.name for o in oneofs if o.name.startswith("_")], "proto3 optional is not in the contract"


def test_the_tables_are_whole() -> None:
    """Counts read off the protocol's description by hand: RPCs of the base services."""
    base = {
        name: sum(line.count("→") for line in (TABLES / f"{name}.txt").read_text().splitlines())
        for name in FILES
    }
    assert base == {"meta": 8, "admin": 28, "debug": 3, "kv_meta": 7, "kvcm_v1": 7}


def test_each_unary_rpc_has_the_path_that_clients_call() -> None:
    service = FILES["meta"].services_by_name["MetaService"]
    assert service.full_name == "kv_cache_manager.proto.meta.MetaService"
    assert FILES["kv_meta"].services_by_name["MetaService"].full_name == (
        "kv_cache_manager.proto.kv_meta.MetaService"
    )
    assert not any(m.client_streaming or m.server_streaming for m in service.methods)


def test_answers_of_the_data_plane_are_numbered_alike() -> None:
    """One encoded header, and one encoded location, serve all packages."""
    for package in ("meta", "kv_meta", "kvcm_v1"):
        file = FILES[package]
        for service in file.services_by_name.values():
            for method in service.methods:
                assert method.output_type.fields_by_name["header"].number == 1, method.full_name
                assert method.input_type.fields_by_name["trace_id"].number == 1, method.full_name
        header = file.services_by_name.values()[0].methods[0].output_type.fields_by_name["header"]
        members = {member.name: member.number for member in header.message_type.fields}
        assert members == {"status": 1, "request_id": 2, "tracer_result": 3}
    places = [FILES[p].message_types_by_name.get("ValueLocation") for p in ("kv_meta", "kvcm_v1")]
    blocks = FILES["meta"].message_types_by_name["CacheLocation"]
    for place in places:
        assert place is not None
        assert [(f.name, f.number) for f in place.fields] == [(f.name, f.number) for f in blocks.fields]
    for package, answer, number in (("kv_meta", "GetResponse", 2), ("kvcm_v1", "PutStartResponse", 4)):
        message = FILES[package].message_types_by_name[answer]
        assert message.fields_by_name["locations"].number == number
