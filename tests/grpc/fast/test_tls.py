"""TLS with ALPN: a certificate of the test's own, real clients, and those that must be sent away."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvcm_platform.metadata_service.tls import ServerTls
from kvcm_platform.settings.env import BadSetting, Env

from .adversary import Adversary
from .served import PATH, Served, served


@pytest.fixture(params=["uvloop", "asyncio"])
def endpoint(request: pytest.FixtureRequest, files: tuple[Path, Path]) -> Iterator[Served]:
    certificate, key = files
    with served(request.param, ServerTls(str(certificate), str(key)).context(), preface_seconds=2) as running:
        yield running


def channel_to(port: int, certificate: Path) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    return grpc.secure_channel(f"localhost:{port}", credentials, [("grpc.max_receive_message_length", -1)])


def client_context(certificate: Path, *protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def test_grpcio_over_tls(endpoint, files):
    with channel_to(endpoint.port, files[0]) as channel:
        call = channel.unary_unary(PATH + "Call")
        for size in (0, 100, 100_000, 5_000_000):
            assert call(bytes(size), timeout=20) == bytes(size)
        futures = [channel.unary_unary(PATH + "Slow").future(b"0.5", timeout=10) for _ in range(20)]
        while endpoint.begun < 20:
            pass
        endpoint.run(endpoint.server.stop(5))
        assert [future.result() for future in futures] == [b"0.5"] * 20


def test_alpn_is_h2_or_nothing(endpoint, files):
    with Adversary(endpoint.port, tls=client_context(files[0], "h2")) as client:
        assert client.socket.selected_alpn_protocol() == "h2"
        client.send(client.caller.call(1, b"over tls"))
        assert client.answer(1).message == b"over tls"
    for protocols in ((), ("http/1.1",)):
        try:
            with Adversary(endpoint.port, tls=client_context(files[0], *protocols)) as client:
                assert client.is_cut_off()
        except OSError:
            pass  # cut off while it connected or greeted


def test_old_versions_plain_text_and_silence_are_cut_off(endpoint, files):
    old = client_context(files[0], "h2")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        Adversary(endpoint.port, tls=old)
    with Adversary(endpoint.port) as client:
        assert client.is_cut_off()
    with Adversary(endpoint.port, greet=False) as client:
        assert client.is_cut_off()
    with Adversary(endpoint.port, tls=client_context(files[0], "h2"), greet=False) as client:
        assert client.is_cut_off()


def test_goaway_reaches_a_tls_client(endpoint, files):
    with Adversary(endpoint.port, tls=client_context(files[0], "h2")) as client:
        client.send(bytes(9))
        assert client.is_cut_off()
        assert [code for _, code in client.reader.goaways] == [1]


@pytest.mark.parametrize(
    "variables",
    [
        {"KVCM_TLS_CERT": "a"},
        {"KVCM_TLS_KEY": "a"},
        {"KVCM_META_AUTH": "mtls"},
        {"KVCM_META_AUTH": "mtls", "KVCM_TLS_CLIENT_CA": "a"},
        {"KVCM_TLS_CLIENT_CA": "a", "KVCM_TLS_CERT": "a", "KVCM_TLS_KEY": "b"},
        {"KVCM_TRANSPORT": "faster"},
    ],
)
def test_settings_that_cannot_be_meant(variables):
    with pytest.raises(BadSetting):
        Env({"KVCM_TRANSPORT": "fast", **variables})


def test_a_bad_certificate_ends_the_start(tmp_path, files):
    (tmp_path / "bad").write_text("no certificate")
    with pytest.raises(OSError):
        ServerTls(str(tmp_path / "bad"), str(files[1])).context()
