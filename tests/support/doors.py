"""The three ways into MetaService as one: a call by name with a JSON body, an answer as a client sees it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.metadata_process import MetadataProcess

DOORS = ("grpcio", "fast", "http")
META = pb.DESCRIPTOR.services_by_name["MetaService"]
SECONDS = 20
_HTTP_AS_GRPC = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    413: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass
class Answer:
    """`code` is the header's, or the name of the gRPC status (of HTTP: the one that it stands for)."""

    code: str
    message: str
    body: dict[str, Any] = field(default_factory=dict)


class GrpcDoor:
    """A client of its own: options of the channel lift its own limits."""

    def __init__(self, address: str, service: Any = META) -> None:
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.channel = grpc.insecure_channel(address, options=options)
        self._service = service

    def call(self, name: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
        return self.begin(name, body, headers)()

    def begin(self, name: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """Sends a call; the answer is what the returned function returns."""
        method = self._service.methods_by_name[name]
        request = json_format.ParseDict(
            body, GetMessageClass(method.input_type)(), ignore_unknown_fields=True
        )
        stub = self.channel.unary_unary(
            f"/{self._service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        metadata = tuple((headers or {}).items())
        sent = stub.future(request, timeout=SECONDS, metadata=metadata)

        def answer() -> Answer:
            try:
                message = sent.result()
            except grpc.RpcError as error:
                return Answer(error.code().name, error.details() or "")
            shown = json_format.MessageToDict(
                message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            return _answer(shown)

        return answer

    def close(self) -> None:
        self.channel.close()


class HttpDoor:
    def __init__(self, port: int, prefix: str = "/api/") -> None:
        self._port = port
        self._prefix = prefix

    def call(self, name: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
        return self.begin(name, body, headers)()

    def begin(self, name: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        path = f"{self._prefix}{name[0].lower()}{name[1:]}"
        connection.request("POST", path, json.dumps(body).encode(), dict(headers or {}))

        def answer() -> Answer:
            response = connection.getresponse()
            text = response.read()
            connection.close()
            if response.status == 200:
                return _answer(json.loads(text))
            if response.status == 400:
                return Answer("BAD_JSON", text.decode())
            return Answer(_HTTP_AS_GRPC[response.status], json.loads(text)["message"])

        return answer

    def close(self) -> None:
        pass


Door = GrpcDoor | HttpDoor


def _answer(shown: dict[str, Any]) -> Answer:
    status = shown["header"]["status"]
    return Answer(status["code"], status["message"], shown)


@contextmanager
def door_of(
    process: MetadataProcess, kind: str, service: Any = META, http_prefix: str = "/api/"
) -> Iterator[Door]:
    """`kind` is one of DOORS; the process must have been started with that transport."""
    is_http = kind == "http"
    opened: Door = HttpDoor(process.http_port, http_prefix) if is_http else GrpcDoor(process.rpc, service)
    try:
        yield opened
    finally:
        opened.close()
