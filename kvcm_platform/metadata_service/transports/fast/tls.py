"""TLS of the endpoint: gRPC asks for HTTP/2 by ALPN (RFC 9113, 3.2), with TLS 1.2 or newer (9.2)."""

from __future__ import annotations

import ssl

# RFC 9113, 9.2.2 forbids every cipher of TLS 1.2 without ephemeral keys and AEAD.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def tls_of(certificate: str, key: str) -> ssl.SSLContext | None:
    """The context for two PEM files, None without them. Raises OSError (SSLError is one) on bad ones."""
    if not certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(certificate, key)
    return context
