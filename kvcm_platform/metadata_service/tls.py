"""The PEM files of MetaService's ports, in the forms that its servers take."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from kvcm_platform.settings.env import Env

# RFC 9113, 9.2.2 forbids every cipher of TLS 1.2 without ephemeral keys and AEAD.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """`client_ca` = who signs the certificates that every client must show; empty = none is asked for."""

    certificate: str
    key: str
    client_ca: str = ""

    @classmethod
    def of(cls, env: Env) -> ServerTls | None:
        """None where the ports speak plain text."""
        if not env["KVCM_TLS_CERT"]:
            return None
        return cls(env["KVCM_TLS_CERT"], env["KVCM_TLS_KEY"], env["KVCM_TLS_CLIENT_CA"])

    def context(self) -> ssl.SSLContext:
        """For the fast endpoint: HTTP/2 by ALPN, TLS 1.2 or newer (RFC 9113, 3.2 and 9.2).

        Raises OSError (SSLError is one) on bad files.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def credentials(self) -> grpc.ServerCredentials:
        """For grpcio. Raises OSError where a file cannot be read."""
        pair = (Path(self.key).read_bytes(), Path(self.certificate).read_bytes())
        root = Path(self.client_ca).read_bytes() if self.client_ca else None
        return grpc.ssl_server_credentials([pair], root, require_client_auth=root is not None)

    def http(self) -> dict[str, Any]:
        """For uvicorn."""
        options: dict[str, Any] = {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        if self.client_ca:
            options |= {"ssl_ca_certs": self.client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return options
