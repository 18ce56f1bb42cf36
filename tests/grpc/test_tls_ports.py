"""TLS and client certificates on the ports of a metadata process, and the platform's own clients of them."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from apps.control.meta_link import MetaLink
from kvcm_platform.client import BlockingMetadataClient, calls
from kvcm_platform.client.channel import ClientTls
from kvcm_platform.client.cli import _parser, _tls
from kvcm_platform.client.errors import TransportError
from kvcm_platform.client.load.engine import engine_connection
from kvcm_platform.core.errors import DomainError
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.settings.env import Env
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import ValkeyServer

QUESTION = pb.GetCacheMetaRequest(instance_id="nobody", block_keys=[1]).SerializeToString()


class Certificates:
    """An authority, a server and a client that it signed, and a stranger that signed itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._make("authority", "-x509", "-subj", "/CN=authority")
        for name in ("server", "client"):
            self._make(name, "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:meta.example")
            signed = ("x509", "-req", "-in", self.path(name), "-out", self.path(name), "-days", "2")
            signer = ("-CA", self.path("authority"), "-CAkey", self.key("authority"), "-CAcreateserial")
            self._openssl(*signed, *signer, "-copy_extensions", "copy")
        self._make("stranger", "-x509", "-subj", "/CN=stranger")

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def key(self, name: str) -> str:
        return str(self.folder / f"{name}.key")

    def _make(self, name: str, *options: str) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        self._openssl("req", *curve, *options, "-keyout", self.key(name), "-out", self.path(name))

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], capture_output=True, check=True, timeout=30)

    def variables(self, *, is_mutual: bool) -> dict[str, str]:
        found = {
            "KVCM_TLS_CERT": self.path("server"),
            "KVCM_TLS_KEY": self.key("server"),
            "KVCM_TLS_NAME": "meta.example",
        }
        if is_mutual:
            found |= {"KVCM_META_AUTH": "mtls", "KVCM_TLS_CLIENT_CA": self.path("authority")}
        return found

    def of_client(self, name: str) -> ClientTls:
        own = (Path(self.path(name)), Path(self.key(name))) if name else (None, None)
        return ClientTls(Path(self.path("authority")), *own, server_name="meta.example")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(
    scope="module",
    params=[(kind, auth) for kind in ("fast", "grpcio") for auth in ("tls", "mtls")],
    ids=lambda param: "-".join(param),
)
def secure(
    request: pytest.FixtureRequest,
    server: tuple[MetadataProcess, ValkeyServer],
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[MetadataProcess, bool, dict[str, str]]]:
    """(process, whether clients must show a certificate, its variables)"""
    transport, auth = request.param
    variables = certificates.variables(is_mutual=auth == "mtls")
    folder = tmp_path_factory.mktemp("secure")
    with metadata_process(server[1].url, folder, KVCM_TRANSPORT=transport, **variables) as process:
        yield process, auth == "mtls", {**variables, "KVCM_META_RPC_PORT": str(process.rpc_port)}


def can_call(process: MetadataProcess, tls: ClientTls) -> bool:
    connection = engine_connection(process.rpc, "", tls)
    with BlockingMetadataClient(connection) as client:
        try:
            client.run(calls.get_cluster_info(), timeout_seconds=2)
        except TransportError:
            return False
        return True


@pytest.mark.parametrize("who", ["", "client", "stranger"])
def test_who_may_call_grpc(secure, certificates, who):
    process, is_mutual, _ = secure
    assert can_call(process, certificates.of_client(who)) == (not is_mutual or who == "client")


def test_plain_text_is_not_answered(secure):
    process = secure[0]
    with grpc.insecure_channel(process.rpc) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/kv_cache_manager.proto.meta.MetaService/GetClusterInfo")(b"", timeout=2)
    plain = http.client.HTTPConnection("127.0.0.1", process.http_port, timeout=2)
    with pytest.raises(OSError):
        plain.request("POST", "/api/getClusterInfo", "{}")
        plain.getresponse()


@pytest.mark.parametrize("who", ["", "client", "stranger"])
def test_who_may_call_http(secure, certificates, who):
    process, is_mutual, _ = secure
    context = ssl.create_default_context(cafile=certificates.path("authority"))
    context.check_hostname = False
    if who:
        context.load_cert_chain(certificates.path(who), certificates.key(who))
    connection = http.client.HTTPSConnection("127.0.0.1", process.http_port, timeout=5, context=context)

    def status() -> int:
        connection.request("POST", "/api/getClusterInfo", "{}")
        return connection.getresponse().status

    if not is_mutual or who == "client":
        assert status() == 200
    else:
        with pytest.raises((OSError, http.client.HTTPException)):
            status()


@pytest.mark.parametrize("authority", ["", "authority"])
def test_control_reaches_it(secure, certificates, authority):
    process, _, variables = secure
    if authority:
        variables = {**variables, "KVCM_TLS_CA": certificates.path(authority)}
    env: Any = Env({**variables, "KVCM_DATA_DIR": str(certificates.folder)})
    link = MetaLink(env, 1 << 20)
    answer = pb.GetCacheMetaResponse.FromString(link.forward("GetCacheMeta", QUESTION))
    assert answer.header.status.code == pb.INSTANCE_NOT_EXIST
    link.close()


def test_control_does_not_trust_another(secure, certificates):
    env: Any = Env({**secure[2], "KVCM_TLS_CA": certificates.path("stranger")})
    link = MetaLink(env, 1 << 20)
    with pytest.raises(DomainError):
        link.forward("GetCacheMeta", QUESTION)
    link.close()


def test_the_demo_finds_the_platforms_files(secure, certificates, monkeypatch):
    process, is_mutual, variables = secure
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    tls = _tls(_parser().parse_args(["demo"]))
    assert (tls.certificate is not None) == is_mutual
    assert can_call(process, tls)
    monkeypatch.setenv("KVCM_TLS_CA", certificates.path("stranger"))
    assert not can_call(process, _tls(_parser().parse_args(["demo"])))
    explicit = ["demo", "--tls-ca", certificates.path("authority")]
    assert can_call(process, _tls(_parser().parse_args(explicit)))


def test_without_files_the_client_speaks_plain_text(monkeypatch):
    monkeypatch.delenv("KVCM_TLS_CERT", raising=False)
    monkeypatch.delenv("KVCM_TLS_CA", raising=False)
    assert _tls(_parser().parse_args(["demo"])) is None
