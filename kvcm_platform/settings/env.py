"""Every environment variable of the platform: typed, with its default, read here and nowhere else.

No Django in this module: the metadata service reads the same table. `docs/configuration.md`
is generated from `KNOBS`, and a test compares the two.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kvcm_platform.core.health import HealthLimits
from kvcm_platform.core.writes import MAX_WRITE_TIMEOUT
from kvcm_platform.index import address
from kvcm_platform.settings.mail import parse_mail_url


class BadSetting(ValueError):
    """A variable whose value cannot be used; the sentence names the variable."""


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def _flag(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"", "0", "false", "no", "off"}:
        return False
    raise ValueError("must be 1 or 0")


def _networks(text: str) -> str:
    for part in filter(None, (part.strip() for part in text.split(","))):
        ipaddress.ip_network(part)
    return text


def _mail_url(text: str) -> str:
    if text:
        parse_mail_url(text)
    return text


def _redis_url(text: str) -> str:
    if text:
        address.parse(text)
    return text


@dataclass(frozen=True, slots=True)
class Knob:
    """One variable. `default` is the text used when the variable is unset or empty."""

    name: str
    parse: Callable[[str], Any]
    default: str
    help: str
    shown_default: str = ""


_PORT = _integer(1, 65535)

KNOBS: tuple[Knob, ...] = (
    Knob("KVCM_DATA_DIR", str, "./var", "SQLite file, Valkey data and socket, nfs_01, uploads, logs"),
    Knob("DATABASE_URL", str, "", "`postgres://…`, or `embedded-postgres`", "SQLite (WAL) in the data dir"),
    Knob(
        "KVCM_REDIS_URL",
        _redis_url,
        "",
        "the index: Redis or Valkey ≥ 7.2. `redis://[user:password@]host:port[/db]`, `unix:///path`,"
        " `redis+cluster://h1:p1,h2:p2`, `redis+sentinel://h1:p1,h2:p2/<master>[/db]`; `rediss…://` over TLS,"
        " `?ca=<PEM file>`",
        "embedded Valkey",
    ),
    Knob(
        "KVCM_BROKER_URL",
        str,
        "",
        "Celery broker: one server or Sentinel; required when `KVCM_REDIS_URL` is a Cluster",
        "`KVCM_REDIS_URL`",
    ),
    Knob(
        "KVCM_CHANNELS_URL",
        str,
        "",
        "channel layer of the live pages: as the broker",
        "`KVCM_REDIS_URL`",
    ),
    Knob("KVCM_BIND", str, "127.0.0.1", "address that every port is bound to"),
    Knob("KVCM_WEB_PORT", _PORT, "8000", "UI, REST, WebSocket, health"),
    Knob("KVCM_META_RPC_PORT", _PORT, "6381", "MetaService over gRPC (AdminService is forwarded)"),
    Knob("KVCM_META_HTTP_PORT", _PORT, "6382", "MetaService over the compatible HTTP"),
    Knob("KVCM_ADMIN_RPC_PORT", _PORT, "6491", "AdminService over gRPC"),
    Knob("KVCM_ADMIN_HTTP_PORT", _PORT, "6492", "AdminService over the compatible HTTP"),
    Knob("KVCM_DEBUG_SERVICE", _flag, "0", "fault injection; its HTTP on `KVCM_META_HTTP_PORT` + 3000"),
    Knob(
        "KVCM_METADATA_WORKERS",
        _integer(1, 64),
        str(min(4, os.cpu_count() or 1)),
        "metadata processes that share the ports",
        "number of cores, at most 4",
    ),
    Knob(
        "KVCM_INDEX_BACKEND",
        _choice("redis", "local", "rocksdb"),
        "redis",
        "where the blocks are: `redis`; or, with one metadata process alone, its memory (`local`: a snapshot"
        " each second) or a `rocksdb` folder, both in the data dir; another backend begins with an empty"
        " index, so trim the instances before a change",
    ),
    Knob("KVCM_SEARCH_CACHE_MB", _integer(0, 1 << 20), "512", "search cache of a metadata process; 0 = none"),
    Knob("KVCM_STRICT_READS", _flag, "0", "confirm the event stream on every match, not every 100 ms"),
    Knob(
        "KVCM_INDEX_SHARDS",
        _integer(1, 16),
        "1",
        "hash tags that the blocks of a new instance are spread over, for servers of a Cluster to share",
    ),
    Knob(
        "KVCM_TOUCH_TIMEOUT_MS",
        _integer(5, 60_000),
        "50",
        "how long a Start waits for the empty files of a storage with touch_file_when_create before it tries"
        " the next one; below the deadline of clients, 100 ms for C++",
    ),
    Knob("KVCM_WRITE_TIMEOUT_S", _integer(1, 3600), "30", "write timeout where a client sends none"),
    Knob(
        "KVCM_REUSE_QUARANTINE_S",
        _integer(MAX_WRITE_TIMEOUT, 30 * 86400),
        str(MAX_WRITE_TIMEOUT),
        "how long memory of a pool is kept from others after a write to it failed, since a late writer may"
        " still come; the longest write timeout at least",
    ),
    Knob(
        "KVCM_KV_VALUE_BYTES",
        _integer(1, 1 << 40),
        str(1 << 20),
        "size of a value where a key-value instance gives none in its `user_data`",
    ),
    Knob(
        "KVCM_EVICTIONS_KEPT_S",
        _integer(60, 30 * 86_400),
        "86400",
        "how long it can be asked why a block left",
    ),
    Knob("KVCM_MAX_KEYS", _integer(1, 1 << 16), "65536", "block keys a call; 65536 at most"),
    Knob("KVCM_MAX_TOKENS", _integer(1, 1 << 28), str(4 << 20), "token ids a call"),
    Knob("KVCM_MAX_MESSAGE_MB", _integer(1, 1024), "64", "size of one call in MiB"),
    Knob("KVCM_MAX_HEADER_KB", _integer(4, 1024), "16", "size of one call's headers in KiB"),
    Knob("KVCM_MAX_STREAMS", _integer(1, 1 << 16), "1024", "calls at a time on one HTTP/2 connection"),
    Knob("KVCM_MAX_CALLS", _integer(1, 1 << 20), "4096", "calls in work in one metadata process"),
    Knob("KVCM_MAX_SESSIONS", _integer(1, 1 << 20), "10000", "open write sessions an instance"),
    Knob("KVCM_ADMIN_USERNAME", str, "admin", "first start only"),
    Knob("KVCM_ADMIN_PASSWORD", str, "", "first start only", "random, printed once"),
    Knob("KVCM_SECRET_KEY", str, "", "required in production settings", "generated into the data dir"),
    Knob("KVCM_INTERNAL_TOKEN", str, "", "lets metadata processes call control", "generated into data dir"),
    Knob(
        "KVCM_META_AUTH",
        _choice("", "open", "network", "token", "mtls"),
        "",
        "data-plane ports: `open`, `network` (allowed CIDRs), `token` or `mtls` (clients' certificates)",
        "`open` on loopback, `token` otherwise",
    ),
    Knob("KVCM_META_NETWORKS", str, "", "comma-separated CIDRs for `KVCM_META_AUTH=network`"),
    Knob("KVCM_TRANSPORT", _choice("fast", "grpcio"), "fast", "what serves MetaService over gRPC"),
    Knob("KVCM_TLS_CERT", str, "", "PEM file: certificate chain of MetaService's gRPC and HTTP ports"),
    Knob("KVCM_TLS_KEY", str, "", "PEM file: private key of `KVCM_TLS_CERT`"),
    Knob(
        "KVCM_TLS_CLIENT_CA",
        str,
        "",
        "PEM file: who signs clients' certificates for `KVCM_META_AUTH=mtls`; `KVCM_TLS_CERT` must be of them"
        " too, since control calls with it",
    ),
    Knob(
        "KVCM_TLS_CA",
        str,
        "",
        "PEM file: who signed `KVCM_TLS_CERT`, for the platform's own clients",
        "that very certificate",
    ),
    Knob("KVCM_TLS_NAME", str, "localhost", "a name in `KVCM_TLS_CERT`, for the platform's own clients"),
    Knob(
        "KVCM_ADMIN_AUTH", _choice("token", "open"), "token", "admin gRPC and HTTP; `open` on loopback only"
    ),
    Knob(
        "KVCM_TRUSTED_NETWORKS",
        str,
        "",
        "your word that these CIDRs are safe without TLS, needed to bind beyond loopback; filters no caller",
    ),
    Knob(
        "KVCM_NODE_ID",
        str,
        "",
        "name of this host in the cluster",
        "host name + random, kept in the data dir",
    ),
    Knob(
        "KVCM_WEBHOOK_NETWORKS",
        _networks,
        "",
        "comma-separated CIDRs that are not public and that webhooks of alerts may call all the same",
    ),
    Knob(
        "KVCM_MAIL_URL",
        _mail_url,
        "",
        "how reports are sent: `smtp://[user:password@]host[:port]`, `smtp+starttls://…`, `smtps://…`,"
        " `file:///folder` or `console:`",
        "files in `mail` in the data dir",
    ),
    Knob("KVCM_MAIL_FROM", str, "kvcm@localhost", "sender of these messages"),
    Knob("KVCM_LEADER_LEASE_MS", _integer(1000, 600_000), "10000", "lease of the background duties"),
    Knob(
        "KVCM_POOL_TOKEN",
        str,
        "",
        "what agents of memory pools ask of their callers; for agents, the platform and engines alike",
        "none; required of agents beyond loopback",
    ),
    Knob(
        "KVCM_STORAGE_FAILURES",
        _integer(1, 100),
        "2",
        "failed checks in a row that take a storage, or a segment of a pool, out of reads and writes",
    ),
    Knob("KVCM_STORAGE_SUCCESSES", _integer(1, 100), "2", "good checks in a row that bring a storage back"),
    Knob(
        "KVCM_POOL_LOST_S",
        _integer(10, 86_400),
        "300",
        "a node that stays away from its memory pool for longer is lost, and its blocks are removed",
    ),
    Knob(
        "KVCM_CONTENT_CHECK_S",
        _integer(0, 604_800),
        "600",
        "how often blocks are checked on storages that may drop objects by themselves; 0 = never",
    ),
    Knob(
        "KVCM_STORAGE_ABANDON_S",
        _integer(0, 2_592_000),
        "0",
        "after how long a storage under removal that does not answer is given up, its blocks forgotten and"
        " its objects left; 0 = only when an operator says so",
    ),
    Knob(
        "KVCM_ESTIMATES",
        _flag,
        "1",
        "whether calls are sampled for the online estimate of hit rates at other capacities",
    ),
    Knob(
        "KVCM_TRACE_UPLOAD_MB",
        _integer(1, 1 << 20),
        "4096",
        "largest source file of a trace for the optimizer, in MiB",
    ),
    Knob("KVCM_TRACES_GB", _integer(1, 1 << 20), "50", "files of all traces together, in GiB"),
    Knob(
        "KVCM_OPTIMIZER_JOBS",
        _integer(1, 6),
        "2",
        "jobs of the optimizer at a time on a worker; each is a process, and keeps one of its eight threads",
    ),
    Knob("KVCM_OPTIMIZER_MEMORY_MB", _integer(512, 1 << 20), "4096", "memory of one such process, in MiB"),
    Knob("KVCM_OPTIMIZER_RUNS_KEPT", _integer(10, 100_000), "1000", "optimizer runs that stay on record"),
    Knob("KVCM_LOG_LEVEL", _choice("DEBUG", "INFO", "WARNING", "ERROR"), "INFO", "log level at start"),
)

DEBUG_PORT_OFFSET = 3000
"""DebugService over HTTP listens so far above MetaService (WIRE.md 1.3)."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Env:
    """The parsed environment. Attributes are the variables' names without `KVCM_`, lower case."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._values: dict[str, Any] = {}
        for knob in KNOBS:
            text = environ.get(knob.name) or knob.default
            try:
                self._values[knob.name] = knob.parse(text)
            except ValueError as error:
                shown = re.sub(r"//[^/]*@", "//…@", text)
                raise BadSetting(f"{knob.name}={shown!r}: {error}") from error
        if self["KVCM_DEBUG_SERVICE"] and self.debug_http_port > 65535:
            raise BadSetting(
                f"KVCM_META_HTTP_PORT={self['KVCM_META_HTTP_PORT']} leaves no port for KVCM_DEBUG_SERVICE,"
                f" which is {DEBUG_PORT_OFFSET} above it"
            )
        if self["KVCM_ADMIN_AUTH"] == "open" and not self.is_loopback:
            raise BadSetting("KVCM_ADMIN_AUTH=open is accepted on loopback only")
        for name, what in (("KVCM_BROKER_URL", "Celery"), ("KVCM_CHANNELS_URL", "the channel layer")):
            if address.is_cluster(self[name] or self["KVCM_REDIS_URL"]):
                raise BadSetting(
                    f"{name} must name one server or its Sentinels: {what} cannot use a Redis Cluster"
                )
        if self["KVCM_INDEX_BACKEND"] != "redis" and self["KVCM_METADATA_WORKERS"] != 1:
            raise BadSetting(
                f"KVCM_INDEX_BACKEND={self['KVCM_INDEX_BACKEND']} keeps the index in one process: set"
                " KVCM_METADATA_WORKERS=1"
            )
        if bool(self["KVCM_TLS_CERT"]) != bool(self["KVCM_TLS_KEY"]):
            raise BadSetting("KVCM_TLS_CERT and KVCM_TLS_KEY belong together: set both or neither")
        if (self["KVCM_META_AUTH"] == "mtls") != bool(self["KVCM_TLS_CLIENT_CA"]):
            raise BadSetting(
                "KVCM_META_AUTH=mtls and KVCM_TLS_CLIENT_CA belong together: set both or neither"
            )
        if self["KVCM_TLS_CLIENT_CA"] and not self["KVCM_TLS_CERT"]:
            raise BadSetting("KVCM_META_AUTH=mtls needs KVCM_TLS_CERT: clients show theirs over TLS")
        if not self.is_loopback and not self["KVCM_TRUSTED_NETWORKS"]:
            raise BadSetting(
                f"KVCM_BIND={self['KVCM_BIND']} is beyond loopback: declare KVCM_TRUSTED_NETWORKS first"
            )

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def is_loopback(self) -> bool:
        return self["KVCM_BIND"] in LOOPBACK

    @cached_property
    def data_dir(self) -> Path:
        return Path(self["KVCM_DATA_DIR"]).absolute()

    @property
    def snapshot_file(self) -> Path:
        """The index of KVCM_INDEX_BACKEND=local between two runs."""
        return self.data_dir / "index" / "blocks.snapshot"

    @property
    def rocksdb_folder(self) -> Path:
        """The index of KVCM_INDEX_BACKEND=rocksdb."""
        return self.data_dir / "index" / "rocksdb"

    @property
    def redis_url(self) -> str:
        """The index; the supervisor's embedded Valkey listens on a socket in the data dir."""
        return self["KVCM_REDIS_URL"] or f"unix://{self.valkey_socket}"

    @property
    def valkey_socket(self) -> Path:
        """Where the embedded Valkey listens.

        The kernel takes paths of at most 107 bytes. Below a longer data dir the socket lies in a
        folder of this user whose name follows from the data dir, so that every command finds it.
        """
        path = self.data_dir / "valkey.sock"
        if len(os.fsencode(path)) <= 107:
            return path
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"kvcm-{os.getuid()}-{digest}" / "valkey.sock"

    @property
    def broker_url(self) -> str:
        return self["KVCM_BROKER_URL"] or self.redis_url

    @property
    def channels_url(self) -> str:
        return self["KVCM_CHANNELS_URL"] or self.redis_url

    @property
    def meta_auth(self) -> str:
        return self["KVCM_META_AUTH"] or ("open" if self.is_loopback else "token")

    @property
    def storage_health(self) -> HealthLimits:
        """What it takes for a storage to count as gone, and to count again."""
        return HealthLimits(
            failures=self["KVCM_STORAGE_FAILURES"],
            successes=self["KVCM_STORAGE_SUCCESSES"],
            pool_lost_seconds=self["KVCM_POOL_LOST_S"],
            content_check_seconds=self["KVCM_CONTENT_CHECK_S"],
            abandon_seconds=self["KVCM_STORAGE_ABANDON_S"],
        )

    @property
    def bind(self) -> str:
        return str(self["KVCM_BIND"])

    @property
    def debug_http_port(self) -> int:
        return int(self["KVCM_META_HTTP_PORT"]) + DEBUG_PORT_OFFSET

    @property
    def control_address(self) -> str:
        """Where metadata processes reach AdminService on this host."""
        host = "127.0.0.1" if self.bind in {"0.0.0.0", "localhost"} else self.bind  # noqa: S104
        return (
            f"[{host}]:{self['KVCM_ADMIN_RPC_PORT']}"
            if ":" in host
            else f"{host}:{self['KVCM_ADMIN_RPC_PORT']}"
        )

    @cached_property
    def secret_key(self) -> str:
        return self["KVCM_SECRET_KEY"] or self._kept("secret_key", lambda: secrets.token_urlsafe(48))

    @cached_property
    def internal_token(self) -> str:
        return self["KVCM_INTERNAL_TOKEN"] or self._kept("internal_token", lambda: secrets.token_urlsafe(32))

    @cached_property
    def node_id(self) -> str:
        return self["KVCM_NODE_ID"] or self._kept(
            "node_id", lambda: f"{socket.gethostname()}-{secrets.token_hex(3)}"
        )

    def _kept(self, name: str, make: Callable[[], str]) -> str:
        """A value made once and kept in the data dir, readable by its owner alone.

        The file is created under another name and linked into place, so that of several
        processes starting at once all read the same value and none reads half of it.
        """
        path = self.data_dir / name
        if not path.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
            draft.touch(mode=0o600)
            draft.write_text(make())
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text().strip()
