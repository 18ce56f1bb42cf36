"""Bad and oversized calls through every door: refused by the name of what is wrong, nothing falls over."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from kvcm_platform.index import registry
from tests.grpc.fast.adversary import Adversary
from tests.support.data_plane import group, instance, storage
from tests.support.doors import DOORS, Answer, Door, door_of
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import ValkeyServer, valkey_server

SMALL = {
    "KVCM_MAX_KEYS": "10",
    "KVCM_MAX_TOKENS": "100",
    "KVCM_MAX_MESSAGE_MB": "1",
    "KVCM_MAX_HEADER_KB": "8",
    "KVCM_MAX_STREAMS": "4",
    "KVCM_MAX_SESSIONS": "3",
    "KVCM_MAX_CALLS": "6",
}
REGISTRATION = {
    "instance_group": "default",
    "instance_id": "new",
    "block_size": 4,
    "location_spec_infos": [{"name": "tp0", "size": 1024}],
    "model_deployment": {"model_name": "model", "dtype": "fp8"},
}
REFUSED_STREAM, ENHANCE_YOUR_CALM = 7, 11
_next_key = iter(range(1, 1 << 40, 1000))


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """With instances `model-a`, `sessions` and one without a block size, as an older registry may have it."""
    root = tmp_path_factory.mktemp("limits")
    with valkey_server() as server:
        entries = (
            storage(root / "nfs"),
            group(),
            instance(),
            instance("sessions", 0xDEF),
            instance("sizeless", 0xFED, block_size=0),
            instance("wide", 0xFEE, specs=[(f"{'part' * 60}{number}", 1) for number in range(1000)]),
            *(instance(f"ends-{door}", number) for number, door in enumerate(DOORS, 1)),
        )
        registry.publish(server.client(), version=1, changed=entries)
        yield server


@pytest.fixture(scope="module", params=DOORS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def transport(kind: str) -> str:
    return "fast" if kind == "fast" else "grpcio"


@pytest.fixture(scope="module")
def usual(kind: str, valkey: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    root = tmp_path_factory.mktemp("usual")
    with (
        metadata_process(valkey.url, root, KVCM_TRANSPORT=transport(kind)) as process,
        door_of(process, kind) as door,
    ):
        yield door


class Silence:
    """Stands where control should be: greets each connection, answers no call, and hangs up when told to.

    It greets with the empty SETTINGS of RFC 9113 6.5: a connection without them counts as a failed one, and
    a gRPC client waits longer before each further attempt, up to two minutes.
    """

    SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer = self._listening.accept()[0]
                with suppress(OSError):  # one that is gone already
                    peer.sendall(self.SETTINGS)
                self._peers.append(peer)

    def hang_up(self) -> None:
        while self._peers:
            self._peers.pop().close()

    def answers(self, calls: list[Callable[[], Answer]], refused: int) -> list[Answer]:
        """The answers of calls made side by side: so many are refused while the others hang.

        The server knows for a while after `hang_up` that control is away and then answers all at once,
        which is no trial.
        """
        deadline = time.monotonic() + 30
        with ThreadPoolExecutor(len(calls)) as pool:
            while True:
                running = [pool.submit(call) for call in calls]
                while sum(one.done() for one in running) < max(refused, 1) and not self._peers:
                    time.sleep(0.005)
                while sum(one.done() for one in running) < refused:
                    assert time.monotonic() < deadline, "fewer were refused"
                    time.sleep(0.005)
                while not all(one.done() for one in running):
                    self.hang_up()
                    time.sleep(0.005)
                answers = [one.result() for one in running]
                if sum(answer.code == "RESOURCE_EXHAUSTED" for answer in answers) >= refused:
                    return answers
                assert time.monotonic() < deadline, answers

    def close(self) -> None:
        self._listening.close()
        self.hang_up()


@pytest.fixture(scope="module")
def silence() -> Iterator[Silence]:
    made = Silence()
    yield made
    made.close()


@pytest.fixture(scope="module")
def small_process(
    kind: str, valkey: ValkeyServer, silence: Silence, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MetadataProcess]:
    root = tmp_path_factory.mktemp("small")
    options = SMALL | {"KVCM_TRANSPORT": transport(kind), "KVCM_ADMIN_RPC_PORT": str(silence.port)}
    with metadata_process(valkey.url, root, **options) as process:
        yield process


@pytest.fixture
def small(kind: str, small_process: MetadataProcess) -> Iterator[Door]:
    with door_of(small_process, kind) as door:
        yield door


@pytest.fixture
def key() -> int:
    """The first of a thousand keys that no other test uses."""
    return next(_next_key)


def query(**members: object) -> dict[str, object]:
    return {"instance_id": "model-a", "query_type": "QT_PREFIX_MATCH", **members}


BAD_CALLS = [
    ("GetCacheLocation", query(), "INVALID_ARGUMENT", "block_keys"),
    ("GetCacheLocation", query(block_keys=[], token_ids=[]), "INVALID_ARGUMENT", "block_keys"),
    ("GetCacheMeta", query(), "INVALID_ARGUMENT", "block_keys"),
    ("StartWriteCache", {"instance_id": "model-a"}, "INVALID_ARGUMENT", "block_keys"),
    ("RemoveCache", {"instance_id": "model-a"}, "INVALID_ARGUMENT", "block_keys"),
    ("GetCacheLocation", query(instance_id="sizeless", token_ids=[1] * 8), "INVALID_ARGUMENT", "block_size"),
    (
        "GetCacheLocation",
        query(block_keys=[1], block_mask={"offset": -1}),
        "INVALID_ARGUMENT",
        "block_mask.offset",
    ),
    ("GetCacheMeta", query(block_keys=[1], block_mask={"offset": -(1 << 31)}), "INVALID_ARGUMENT", "offset"),
    (
        "RemoveCache",
        query(block_keys=[1], block_mask={"offset": -1}),
        "INVALID_ARGUMENT",
        "block_mask.offset",
    ),
    (
        "FinishWriteCache",
        {"instance_id": "model-a", "write_session_id": "a" * 32, "success_blocks": {"offset": -1}},
        "INVALID_ARGUMENT",
        "success_blocks.offset",
    ),
    ("GetCacheLocation", query(query_type=3, block_keys=[1], sw_size=0), "INVALID_ARGUMENT", "sw_size"),
    ("GetCacheLocation", query(query_type=3, block_keys=[1], sw_size=-1), "INVALID_ARGUMENT", "sw_size"),
    ("GetCacheLocation", query(query_type=3, block_keys=[1], sw_size=2), "INVALID_ARGUMENT", "sw_size"),
    ("GetCacheLocationLen", query(query_type=3, block_keys=[1], sw_size=0), "INVALID_ARGUMENT", "sw_size"),
    ("TrimCache", {"instance_id": "model-a"}, "INVALID_ARGUMENT", "strategy"),
    (
        "TrimCache",
        {"instance_id": "model-a", "strategy": "TS_TIMESTAMP", "begin_timestamp": -1},
        "INVALID_ARGUMENT",
        "begin_timestamp",
    ),
    (
        "StartWriteCache",
        {"instance_id": "model-a", "token_ids": [1] * 8, "location_spec_group_names": ["a", "b"]},
        "INVALID_ARGUMENT",
        "location_spec_group_names",
    ),
    ("GetInstanceInfo", {"instance_id": "x" * 100_000}, "INSTANCE_NOT_EXIST", "xxx"),
]


@pytest.mark.parametrize(("rpc", "body", "code", "word"), BAD_CALLS)
def test_bad_calls_say_what_is_wrong(
    usual: Door, rpc: str, body: dict[str, object], code: str, word: str
) -> None:
    answer = usual.call(rpc, body)
    assert answer.code == code
    assert word in answer.message
    assert len(answer.message) < 1000
    assert usual.call("GetClusterInfo", {}).code == "OK"


def test_one_token_short_of_a_block_is_no_block(usual: Door, key: int) -> None:
    """Blocks have four tokens; three make none, seven make one."""
    for tokens, blocks in ((3, 0), (7, 1)):
        ids = list(range(key, key + tokens))
        started = usual.call("StartWriteCache", {"instance_id": "model-a", "token_ids": ids})
        assert (started.code, len(started.body["locations"])) == ("OK", blocks)
        finish = {"write_session_id": started.body["write_session_id"], "success_blocks": {"offset": blocks}}
        assert usual.call("FinishWriteCache", {"instance_id": "model-a", **finish}).code == "OK"
        found = usual.call("GetCacheLocation", query(token_ids=ids))
        assert (found.code, len(found.body["locations"])) == ("OK", blocks)


def test_duplicate_keys_are_written_once_and_found_each_time(usual: Door, key: int) -> None:
    keys = [key, key + 1, key, key, key + 1]
    started = usual.call("StartWriteCache", {"instance_id": "model-a", "block_keys": keys})
    assert started.body["block_mask"] == {"bool_masks": {"values": [False, False, True, True, True]}}
    assert len(started.body["locations"]) == 2
    finish = {"write_session_id": started.body["write_session_id"], "success_blocks": {"offset": 2}}
    assert usual.call("FinishWriteCache", {"instance_id": "model-a", **finish}).code == "OK"
    first, second = started.body["locations"]
    found = usual.call("GetCacheLocation", query(block_keys=keys))
    assert found.body["locations"] == [first, second, first, first, second]
    assert usual.call("RemoveCache", {"instance_id": "model-a", "block_keys": keys}).code == "OK"
    assert usual.call("GetCacheLocation", query(block_keys=keys)).body["locations"] == []


def test_the_keys_at_both_ends_of_64_bits(kind: str, usual: Door) -> None:
    """2^63 is one past the last: JSON refuses it, protobuf cannot say it (its bytes mean -2^63)."""
    keys = [(1 << 63) - 1, -(1 << 63), -1, 0]
    started = usual.call("StartWriteCache", {"instance_id": f"ends-{kind}", "block_keys": keys})
    names = [one["location_specs"][0]["uri"] for one in started.body["locations"]]
    assert len(set(names)) == 4, "each has a place of its own"
    finish = {"write_session_id": started.body["write_session_id"], "success_blocks": {"offset": 4}}
    assert usual.call("FinishWriteCache", {"instance_id": f"ends-{kind}", **finish}).code == "OK"
    assert (
        usual.call("GetCacheLocation", query(instance_id=f"ends-{kind}", block_keys=keys)).body["locations"]
        == started.body["locations"]
    )


def test_messages_of_ten_megabytes(usual: Door, key: int) -> None:
    answer = usual.call("GetCacheLocation", query(block_keys=[key], trace_id="x" * 10_000_000))
    assert (answer.code, answer.body["locations"]) == ("OK", [])
    tokens = [1 << 62] * 1_200_000  # 300,000 blocks: more than a call may name
    answer = usual.call("GetCacheLocation", query(token_ids=tokens))
    assert (answer.code, "KVCM_MAX_KEYS" in answer.message) == ("RESOURCE_EXHAUSTED", True)
    assert usual.call("GetCacheLocation", query(block_keys=[key])).code == "OK"


def test_an_answer_that_is_too_large_is_refused_before_it_is_made(small: Door) -> None:
    body = query(instance_id="wide", block_keys=list(range(10)), query_type="QT_BATCH_GET")
    answer = small.call("GetCacheLocation", body)
    assert (answer.code, "KVCM_MAX_MESSAGE_MB" in answer.message) == ("RESOURCE_EXHAUSTED", True)
    assert small.call("GetCacheLocation", body | {"block_keys": [1]}).code == "OK"


@pytest.mark.parametrize(
    ("rpc", "body", "word"),
    [
        ("GetCacheLocation", query(block_keys=list(range(11))), "block_keys: 11 are more than 10"),
        ("StartWriteCache", query(block_keys=list(range(11))), "block_keys: 11 are more than 10"),
        ("RemoveCache", query(block_keys=[1] * 11), "block_keys: 11 are more than 10"),
        ("GetCacheMeta", query(block_keys=list(range(11))), "block_keys: 11 are more than 10"),
        ("GetCacheLocation", query(token_ids=[1] * 101), "token_ids: 101 are more than 100"),
        ("StartWriteCache", query(token_ids=[1] * 101), "token_ids: 101 are more than 100"),
        ("GetCacheLocationLen", query(token_ids=[1] * 101), "token_ids: 101 are more than 100"),
        ("GetCacheLocation", query(trace_id="x" * (11 << 20)), "1048576"),
    ],
)
def test_too_much_in_one_call(small: Door, rpc: str, body: dict[str, object], word: str) -> None:
    answer = small.call(rpc, body)
    assert answer.code == "RESOURCE_EXHAUSTED"
    assert word in answer.message
    assert small.call("GetCacheLocation", query(block_keys=list(range(10)))).code == "OK"


def test_headers(small: Door) -> None:
    assert small.call("GetClusterInfo", {}, {"x-long": "a" * 6000}).code == "OK"
    answer = small.call("GetClusterInfo", {}, {"x-long": "a" * 9000})
    assert answer.code == "RESOURCE_EXHAUSTED"
    assert "8192" in answer.message
    many = {f"x-{number}": "b" * 90 for number in range(100)}
    assert small.call("GetClusterInfo", {}, many).code == "RESOURCE_EXHAUSTED"
    assert small.call("GetClusterInfo", {}).code == "OK"


def test_open_write_sessions_of_an_instance(small: Door, key: int) -> None:
    def start(at: int):
        return small.call("StartWriteCache", {"instance_id": "sessions", "block_keys": [key + at]})

    opened = [start(at) for at in range(3)]
    assert [answer.code for answer in opened] == ["OK"] * 3
    refused = start(3)
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert "3 write sessions are open" in refused.message
    for answer in opened:
        finish = {"write_session_id": answer.body["write_session_id"], "success_blocks": {"offset": 1}}
        assert small.call("FinishWriteCache", {"instance_id": "sessions", **finish}).code == "OK"
    again = start(3)
    assert again.code == "OK"
    finish = {"write_session_id": again.body["write_session_id"], "success_blocks": {"offset": 1}}
    small.call("FinishWriteCache", {"instance_id": "sessions", **finish})


def test_calls_in_work(kind: str, small_process: MetadataProcess, silence: Silence) -> None:
    """Registrations wait for a control that does not answer: two more of them than the process takes."""
    with ExitStack() as stack:
        doors = [stack.enter_context(door_of(small_process, kind)) for _ in range(8)]
        found = silence.answers([partial(door.call, "RegisterInstance", REGISTRATION) for door in doors], 2)
    assert sorted(answer.code for answer in found) == ["RESOURCE_EXHAUSTED"] * 2 + ["SERVICE_NOT_READY"] * 6
    assert all("KVCM_MAX_CALLS" in answer.message for answer in found if answer.code == "RESOURCE_EXHAUSTED")
    with door_of(small_process, kind) as door:
        assert door.call("GetClusterInfo", {}).code == "OK"


def test_streams_of_a_connection(kind: str, small: Door, silence: Silence) -> None:
    """Fast: a client that heeds SETTINGS waits its turn. grpcio: it is refused by name."""
    if kind == "http":
        return  # HTTP/1.1 has one call a connection
    assert small.call("GetClusterInfo", {}).code == "OK"
    calls = [partial(small.call, "RegisterInstance", REGISTRATION)] * 6
    found = silence.answers(calls, 0 if kind == "fast" else 2)
    if kind == "fast":
        assert {answer.code for answer in found} == {"SERVICE_NOT_READY"}
    else:
        codes = sorted(answer.code for answer in found)
        assert codes == ["RESOURCE_EXHAUSTED"] * 2 + ["SERVICE_NOT_READY"] * 4
        refused = [answer for answer in found if answer.code == "RESOURCE_EXHAUSTED"]
        assert all("KVCM_MAX_STREAMS" in answer.message for answer in refused)
    assert small.call("GetClusterInfo", {}).code == "OK"


def test_streams_of_a_client_that_heeds_nothing(kind: str, small_process: MetadataProcess) -> None:
    if kind == "http":
        return
    path = (":path", "/kv_cache_manager.proto.meta.MetaService/GetClusterInfo")
    with Adversary(small_process.rpc_port) as client:
        client.ping()
        for stream in range(1, 19, 2):
            client.send(client.caller.headers(stream, path))
        assert client.answer(17).reset in (REFUSED_STREAM, ENHANCE_YOUR_CALM)


def test_endless_headers_over_http(kind: str, small_process: MetadataProcess) -> None:
    """A head that never ends, in small pieces, and trailers that never end."""
    if kind != "http":
        return
    chunked = (
        b"POST /api/getClusterInfo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    )
    for opening in (b"POST /api/getClusterInfo HTTP/1.1\r\n", b"POST /", chunked):
        with socket.create_connection(("127.0.0.1", small_process.http_port), timeout=10) as peer:
            peer.sendall(opening)
            deadline = time.monotonic() + 40
            received = b""
            sent = 0
            try:
                while time.monotonic() < deadline and sent < 64 << 20:
                    peer.sendall(b"x-a: " + b"b" * 500 + b"\r\n" if opening[-2:] == b"\r\n" else b"b" * 500)
                    sent += 500
                received = peer.recv(1 << 16)
            except ConnectionError:
                pass
            assert sent < 64 << 20, "it was cut off"
            assert not received or b" 413 " in received
