"""What a Redis URL says: one server, a Cluster, or a master that Sentinels name.

    redis://[user:password@]host:port[/db]        rediss://… over TLS
    unix:///path[?db=n]
    redis+cluster://[user:password@]h1:p1,h2:p2    rediss+cluster://… over TLS
    redis+sentinel://[user:password@]h1:p1,h2:p2/master name[/db]    rediss+sentinel://… over TLS

Options behind `?`: `ca` = PEM file of the authority that signed the servers' certificates;
`sentinel_user` and `sentinel_password` where the Sentinels have an account of their own.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
MAX_DIGITS = 9
_OPTIONS = frozenset({"ca", "db", "sentinel_user", "sentinel_password"})
_KINDS = {"redis": "single", "unix": "single", "redis+cluster": "cluster", "redis+sentinel": "sentinel"}

HostPort = tuple[str, int]


class BadAddress(ValueError):
    """A Redis URL that cannot be used; the sentence says why and repeats no password."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What AUTH sends; without a password nothing is sent."""

    user: str = "default"
    password: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """`hosts` are the server, the Cluster's known nodes, or the Sentinels; `path` a unix socket instead."""

    kind: str
    hosts: tuple[HostPort, ...]
    path: str
    credentials: Credentials
    database: int
    is_tls: bool
    ca_file: str
    master_name: str = ""
    sentinel_credentials: Credentials = Credentials()

    def tls(self) -> ssl.SSLContext | None:
        """Raises OSError when the file of the authority cannot be read."""
        return ssl.create_default_context(cafile=self.ca_file or None) if self.is_tls else None


def is_cluster(url: str) -> bool:
    return url.partition("://")[0] in {"redis+cluster", "rediss+cluster"}


def parse(url: str) -> Address:
    """Raises BadAddress."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadAddress("the hosts of a Redis URL cannot be read") from error
    scheme = parts.scheme.replace("rediss", "redis", 1)
    if scheme not in _KINDS or parts.scheme not in {scheme, scheme.replace("redis", "rediss")}:
        raise BadAddress(
            f"{parts.scheme or 'nothing'}:// is no kind of Redis URL: {', '.join(sorted(_KINDS))}"
        )
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise BadAddress(f"unknown option {sorted(unknown)[0]!r} in a Redis URL")
    login, _, servers = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    kind = _KINDS[scheme]
    path, master_name, database = _path(scheme, unquote(parts.path))
    hosts = () if scheme == "unix" else _hosts(servers, SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT)
    if kind == "single" and len(hosts) > 1:
        raise BadAddress(
            f"{parts.scheme}:// names one server; several need redis+cluster:// or redis+sentinel://"
        )
    return Address(
        kind=kind,
        hosts=hosts,
        path=path,
        credentials=Credentials(unquote(user) or "default", unquote(password)),
        database=_number(options.get("db", database), "database"),
        is_tls=parts.scheme.startswith("rediss"),
        ca_file=options.get("ca", ""),
        master_name=master_name,
        sentinel_credentials=Credentials(
            options.get("sentinel_user", "default"), options.get("sentinel_password", "")
        ),
    )


def _path(scheme: str, path: str) -> tuple[str, str, str]:
    """(unix socket, master name, database) of a URL's path."""
    if scheme == "unix":
        return path, "", "0"
    first, _, second = path.strip("/").partition("/")
    if scheme == "redis+sentinel":
        if not first:
            raise BadAddress("redis+sentinel:// needs the master's name behind the hosts: …/mymaster")
        return "", first, second or "0"
    if scheme == "redis+cluster" and first not in {"", "0"}:
        raise BadAddress("a Redis Cluster has database 0 alone")
    return "", "", first or "0"


def _hosts(servers: str, default_port: int) -> tuple[HostPort, ...]:
    found = []
    for text in servers.split(","):
        try:
            one = urlsplit(f"//{text}")
            found.append((one.hostname or "localhost", one.port or default_port))
        except ValueError as error:
            raise BadAddress(f"{text!r} is not host:port") from error
    return tuple(found)


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise BadAddress(f"{text[:20]!r} is not a {what}")
    return int(text)
