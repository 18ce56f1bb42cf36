"""The process of `tests/grpc`, served by the fast endpoint."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grpc import test_meta_service as scenarios

from .packages import program

keys = scenarios.keys


@pytest.fixture(scope="module", autouse=True)
def fast_transport() -> Iterator[None]:
    """Every metadata process that a test of this folder starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "KVCM_TRANSPORT", "fast")
        yield


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    request = [
        program("openssl", "openssl"),
        "req",
        "-x509",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    outputs = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *curve, *names, *outputs], capture_output=True, check=True)
    return certificate, key
