"""The way from control to MetaService, for the two calls on blocks that AdminService has as well."""

from __future__ import annotations

from pathlib import Path

import grpc

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.metadata_service.control_link import INTERNAL_KEY
from kvcm_platform.pb import meta_service_pb2 as meta_pb
from kvcm_platform.settings.env import Env

_SERVICE = meta_pb.DESCRIPTOR.services_by_name["MetaService"].full_name
_CALL_SECONDS = 10.0
_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED: Code.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Code.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Code.TOO_LARGE,
}


def _credentials(env: Env) -> grpc.ChannelCredentials:
    """The server's own certificate serves as ours where clients must show one."""
    chain, authority = Path(env["KVCM_TLS_CERT"]).read_bytes(), env["KVCM_TLS_CA"]
    root = Path(authority).read_bytes() if authority else chain
    if env.meta_auth != "mtls":
        return grpc.ssl_channel_credentials(root)
    return grpc.ssl_channel_credentials(root, Path(env["KVCM_TLS_KEY"]).read_bytes(), chain)


class MetaLink:
    """One channel to the metadata processes of this host. Calls block and are bounded in time.

    They carry the internal token: who may make them was judged here, by role and group.
    """

    def __init__(self, env: Env, max_message_bytes: int) -> None:
        self._metadata = ((INTERNAL_KEY, env.internal_token),)
        address = f"{env.control_address.rpartition(':')[0]}:{env['KVCM_META_RPC_PORT']}"
        options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
        ]
        if env["KVCM_TLS_CERT"]:
            options.append(("grpc.ssl_target_name_override", env["KVCM_TLS_NAME"]))
            self._channel = grpc.secure_channel(address, _credentials(env), options)
        else:
            self._channel = grpc.insecure_channel(address, options)

    def forward(self, method: str, request: bytes) -> bytes:
        """Pass a call on. Raises NOT_READY where no metadata process answers, else what it refused with."""
        call = self._channel.unary_unary(f"/{_SERVICE}/{method}")
        try:
            answer: bytes = call(request, timeout=_CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            code = _REFUSALS.get(error.code(), Code.NOT_READY)
            raise DomainError(code, f"metadata service: {error.details()}") from error
        return answer

    def close(self) -> None:
        self._channel.close()
