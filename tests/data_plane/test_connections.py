"""The kinds of Redis URL, accounts, TLS, and the clients of processes with Django."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from kvcm_platform.index import address, blocking, functions, registry
from kvcm_platform.index.address import BadAddress
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import IndexUnavailable
from tests.support.data_plane import group
from tests.support.valkey_cluster import valkey_cluster


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "rest"),
    [
        ("redis://host", "single", (("host", 6379),), {"database": 0, "is_tls": False}),
        ("redis://[::1]:7000/3", "single", (("::1", 7000),), {"database": 3}),
        ("rediss://h:1?ca=/etc/ca.pem", "single", (("h", 1),), {"is_tls": True, "ca_file": "/etc/ca.pem"}),
        ("unix:///run/a%20b.sock?db=2", "single", (), {"path": "/run/a b.sock", "database": 2}),
        ("redis+cluster://a:1,b:2,c", "cluster", (("a", 1), ("b", 2), ("c", 6379)), {}),
        ("rediss+cluster://a:1", "cluster", (("a", 1),), {"is_tls": True}),
        ("redis+sentinel://a,b:2/m/4", "sentinel", (("a", 26379), ("b", 2)), {"master_name": "m"}),
        ("redis+sentinel://a/m/4", "sentinel", (("a", 26379),), {"database": 4}),
    ],
)  # fmt: skip
def test_kinds_of_url(url, kind, hosts, rest):
    where = address.parse(url)
    assert (where.kind, where.hosts) == (kind, hosts)
    assert {name: getattr(where, name) for name in rest} == rest


def test_accounts_in_a_url():
    where = address.parse("redis+cluster://kv%40cm:p%3Aw@a:1,b:2")
    assert (where.credentials.user, where.credentials.password) == ("kv@cm", "p:w")
    assert address.parse("redis://:secret@h").credentials.user == "default"
    sentinels = address.parse("redis+sentinel://a/m?sentinel_user=s&sentinel_password=t").sentinel_credentials
    assert (sentinels.user, sentinels.password) == ("s", "t")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://h", "no kind of Redis URL"),
        ("redis://a,b", "redis\\+cluster"),
        ("redis+sentinel://a:1", "master's name"),
        ("redis+cluster://a/1", "database 0"),
        ("redis://h:port", "host:port"),
        ("redis://h/x", "database"),
        ("redis://h/\u0663", "database"),
        ("redis://h/" + "9" * 5000, "database"),
        ("redis://[::1", "hosts"),
        ("redis://[zz]:1", "hosts"),
        ("redis+cluster://[::1],[::2", "host"),
        ("redis+cluster://a,[", "host"),
        ("redis://h?protokoll=3", "protokoll"),
    ],
)
def test_urls_that_cannot_be_used(url, reason):
    with pytest.raises(BadAddress, match=reason):
        address.parse(url)


async def test_an_account_of_the_servers_list(empty_valkey, valkey):
    client = empty_valkey.client()
    client.acl_setuser("kvcm", enabled=True, passwords=["+s p:ct"], keys=["*"], categories=["+@all"])
    try:
        connection = connection_to(f"unix://kvcm:s%20p%3Act@{valkey.socket}")
        await connection.connect()
        assert (await connection.call("ACL", "WHOAMI")) == b"kvcm"
        await connection.close()
        with pytest.raises(IndexUnavailable, match="WRONGPASS"):
            await connection_to(f"unix://kvcm:wrong@{valkey.socket}").connect()
        named = blocking.client(f"unix://kvcm:s%20p%3Act@{valkey.socket}")
        assert named.acl_whoami() in {"kvcm", b"kvcm"}
    finally:
        client.acl_deluser("kvcm")
        client.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) of localhost, its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -nodes -days 2 -subj /CN=localhost -newkey ec -pkeyopt ec_paramgen_curve:P-256"
    )
    names = ["-addext", "subjectAltName=DNS:localhost"]
    files = folder / "cert.pem", folder / "key.pem"
    outputs = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *names, *outputs], capture_output=True, check=True)
    return files


@asynccontextmanager
async def behind_tls(socket: Path, certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """The wheel's server has no TLS: this ends it in front of the server's socket. Gives the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = await asyncio.open_unix_connection(str(socket))
        await asyncio.gather(carry(reader, inside[1]), carry(inside[0], writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_tls_with_an_authority_of_ones_own(empty_valkey, certificate):
    async with behind_tls(empty_valkey.socket, certificate) as port:
        url = f"rediss://localhost:{port}"
        with pytest.raises(IndexUnavailable, match="certificate"):
            await connection_to(url).connect()
        connection = connection_to(f"{url}?ca={certificate[0]}")
        await connection.connect()
        big = b"x" * (5 << 20)
        await connection.call("SET", "big", big)
        assert await connection.call("GET", "big") == big
        await connection.close()
        named = blocking.client(f"{url}?ca={certificate[0]}")
        assert await asyncio.to_thread(named.strlen, "big") == len(big)


async def test_a_long_wait_ends_with_its_own_time(empty_valkey):
    """A read that gives up leaves the connection to the others; its late answer is nobody's."""
    connection = connection_to(empty_valkey.url)
    await connection.connect()
    blocked = asyncio.ensure_future(connection.call("BLPOP", "list", 1, timeout=3))
    await asyncio.sleep(0)
    with pytest.raises(IndexUnavailable, match="0.1 s"):
        await connection.call("GET", "a", timeout=0.1)
    assert await blocked is None
    await connection.call("SET", "a", "1")
    assert (await connection.call("GET", "a"), connection.connects) == (b"1", 1)
    await connection.close()


async def test_two_versions_of_the_functions_side_by_side(empty_valkey, monkeypatch):
    """A rolling upgrade: the old process's functions stay as they were when the new one brings its own."""
    old = connection_to(empty_valkey.url)
    await old.connect()
    old_version = functions.version()
    body = functions._body().replace("return #args - 2", "return 'of the new version'")
    assert body != functions._body()
    with monkeypatch.context() as patch:
        patch.setattr(functions, "_body", lambda: body)
        for cached in (functions.version, functions.library, functions.name, functions.source):
            cached.cache_clear()
        new = connection_to(empty_valkey.url)
        await new.connect()
        assert functions.version() != old_version
        answer = await new.call("FCALL", "kvcm_postpone", 1, "{7:0}", new.generation, 0, b"dxxxxxxxx12345678")
        assert answer == b"of the new version"
    for cached in (functions.version, functions.library, functions.name, functions.source):
        cached.cache_clear()
    answer = await old.call("FCALL", "kvcm_postpone", 1, "{7:0}", old.generation, 0, b"dxxxxxxxx12345678")
    assert answer == 1
    await old.close()
    await new.close()


@pytest.mark.parametrize(
    "url",
    [
        "unix:///nowhere.sock",
        "redis://127.0.0.1:1",
        "redis+sentinel://127.0.0.1:1/m",
        "redis+cluster://127.0.0.1:1",
    ],
)
async def test_clients_give_up_at_once_where_nobody_is(url):
    """Callers wait in their own ways: a client's hidden retries would hold up their threads."""
    async with asyncio.timeout(0.5):
        with pytest.raises(redis.RedisError):
            blocking.client(url).get("x")
        with pytest.raises(redis.RedisError):
            await blocking.async_client(url).get("x")


def test_blocking_clients_of_a_cluster():
    with valkey_cluster() as cluster:
        client = blocking.client(cluster.url)
        registry.publish(client, version=3, changed=[group()])
        registry.publish(client, version=4, removed=[("group", "gone")])
        assert registry.read(client).groups.keys() == {"default"}
        for master in cluster.masters:
            (library,) = master.client.function_list()
            assert functions.library().encode() in library or functions.library() in str(library)
        for node in cluster.masters:
            node.kill()
        # What callers of a single server wait out.
        with pytest.raises(redis.RedisError):
            client.get("x")
        with pytest.raises(redis.RedisError):
            client.pipeline(transaction=False).get("x").execute()
        with pytest.raises(redis.RedisError):
            blocking.client(cluster.url)
