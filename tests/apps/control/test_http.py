"""AdminService over the compatible HTTP (WIRE.md 1.3)."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.control.dispatcher import RPCS
from kvcm_platform.pb import admin_service_pb2 as pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1
from tests.apps.control.conftest import Control
from tests.factories.actors import make_token
from tests.factories.objects import make_group, make_instance


def test_every_rpc_of_the_service_is_served() -> None:
    own = (v1.DESCRIPTOR.services_by_name[name] for name in ("Migrations", "OptimizerService"))
    services = (pb.DESCRIPTOR.services_by_name["AdminService"], *own)
    assert set(RPCS) == {name for service in services for name in service.methods_by_name}
    assert RPCS["AddStorage"].http_path == "/api/addStorage"


def test_both_spellings_and_unknown_members(control: Control, tmp_path: Path) -> None:
    token = make_token(Role.ADMIN)
    snake = {"storage": {"global_unique_name": "a", "nfs": {"root_path": str(tmp_path)}, "extra": {"x": 1}}}
    camel = {"storage": {"globalUniqueName": "b", "nfs": {"rootPath": str(tmp_path), "keyCountPerFile": "8"}}}
    for body in (snake, camel):
        status, answer = control.post("/api/addStorage", body, token)
        assert (status, answer["header"]["status"]) == (200, {"code": "OK", "message": ""})
    _, listed = control.post("/api/listStorage", {}, token)
    assert listed["storage"][1] == {
        "global_unique_name": "b",
        "nfs": {"root_path": f"{tmp_path}/", "key_count_per_file": 8},
        "check_storage_available_when_open": False,
        "storage_type": "ST_NFS",
    }


def test_big_integers_are_text_and_defaults_are_printed(control: Control) -> None:
    make_group()
    make_instance()
    token = make_token(Role.VIEWER)
    _, answer = control.post("/api/getInstanceInfo", {"instance_id": "model-a"}, token)
    info = answer["instance_info"]
    assert info["location_spec_infos"][0] == {"name": "tp0", "size": "1024"}
    assert (info["block_size"], info["model_deployment"]["use_mla"]) == (16, False)
    _, group = control.post("/api/getInstanceGroup", {"name": "chat"}, token)
    assert group["instance_group"]["version"] == "1"
    assert group["instance_group"]["cache_config"]["data_storage_strategy"] == "CPS_PREFER_3FS"


def test_errors(control: Control) -> None:
    token = make_token(Role.ADMIN)
    assert control.post("/api/addStorage", b"{not json", token) == (400, {})
    status, answer = control.post("/api/addStorage", {"trace_id": "t"}, token)
    assert (status, answer["header"]["status"]["code"]) == (200, "INVALID_ARGUMENT")
    assert answer["header"]["request_id"].startswith("t_")
    assert control.post("/api/nothing", {}, token)[0] == 404


def test_a_caller_cannot_choose_its_address(control: Control) -> None:
    """Proxies' headers are not believed, not even from loopback: audit and network rules go by the peer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{control.process.http_port}/api/addAccount",
        b'{"user_name": "eve", "password": "a long enough secret"}',
        {"Authorization": f"Bearer {make_token(Role.ADMIN)}", "X-Forwarded-For": "203.0.113.7"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
    entry = AuditEntry.objects.get(action="account.create", object_name="eve")
    assert entry.address == "127.0.0.1"
