"""What a Mooncake master says of itself over HTTP: health, figures, segments, names of its objects.

Blocking calls with a time limit each; run them in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from kvcm_platform.core.registry import StorageEntry

HTTP_PORT = 9003
"""Where a master serves HTTP unless it is told otherwise (its option `metrics_port`)."""
_LONGEST = 4 << 20
_LONGEST_KEY = 64 << 10
_QUERY_OBJECTS = 256
_QUERY_CHARACTERS = 64 << 10
_FIGURE = re.compile(
    r"^(master_allocated_bytes|master_total_capacity_bytes|master_evicted_key_count) ([0-9.e+]+)$",
    re.MULTILINE,
)


class MasterAway(OSError):
    """The master does not answer over HTTP, or is not in service."""


@dataclass(frozen=True, slots=True)
class Figures:
    used_bytes: int
    capacity_bytes: int
    evicted_objects: int | None = None
    """Since this master began; None where it does not count them."""


@dataclass(frozen=True, slots=True)
class Master:
    """One master's HTTP server. Every method raises MasterAway."""

    host: str
    port: int

    @classmethod
    def of(cls, entry: StorageEntry) -> Master:
        """From a storage's spec: `master_http_entry`, else the host of the master at its usual port.

        Raises ValueError where neither names a host.
        """
        given = str(entry.spec.get("master_http_entry") or "")
        place = urlsplit("//" + (given or str(entry.spec.get("master_service_entry") or "")))
        if not place.hostname or (not given and place.port is None):
            raise ValueError("master_http_entry is needed: the master's address names no host and port")
        return cls(place.hostname, place.port or HTTP_PORT if given else HTTP_PORT)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def require_service(self, seconds: float) -> None:
        """Returns if the master is in service."""
        text = self._read("/health", seconds)
        try:
            said = json.loads(text)
            is_ready, state = bool(said["service_ready"]), str(said.get("ha_state", ""))
        except (ValueError, KeyError, TypeError):
            raise MasterAway(errno.EPROTO, f"{self.address} is no Mooncake master", self.address) from None
        if not is_ready:
            raise MasterAway(errno.EAGAIN, f"the master is not in service ({state})", self.address)

    def figures(self, seconds: float) -> Figures:
        """Bytes in use and altogether, of the memory that is lent to the store now, and what was evicted."""
        found = dict(_FIGURE.findall(self._read("/metrics", seconds)))
        evicted = found.get("master_evicted_key_count")
        return Figures(
            int(float(found.get("master_allocated_bytes", 0))),
            int(float(found.get("master_total_capacity_bytes", 0))),
            None if evicted is None else int(float(evicted)),
        )

    def segments(self, seconds: float) -> list[str]:
        """What tells the pieces of memory apart that are lent to the store now, each life of each lender."""
        try:
            detail = json.loads(self._read("/get_segments_detail", seconds))
            return [str(segment["segment_id"]) for segment in detail["segments"]]
        except (ValueError, KeyError, TypeError):
            return self._read("/get_all_segments", seconds).split()
        except MasterAway as error:
            if error.errno != errno.EPROTO:
                raise
            # An older master, which knows names only.
            return self._read("/get_all_segments", seconds).split()

    def present(self, names: Sequence[str], seconds: float) -> set[str]:
        """Those of these objects that are there, `seconds` for each request.

        Unlike the store's own question it leaves no lease. What it does not name may be there nevertheless:
        the question has no form for a comma, and an older master does not know it.
        """
        found: set[str] = set()
        for query in _queries(names):
            try:
                objects = json.loads(self._read(f"/batch_query_keys?keys={query}", seconds))["data"]
                found |= {name for name, told in objects.items() if told["ok"] is True}
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            except MasterAway as error:
                if error.errno != errno.EPROTO:
                    raise
                break
        return found

    def keys(self, seconds: float) -> Iterator[str]:
        """Names of all objects, as they come in; `seconds` is for each piece of the answer."""
        with self._get("/get_all_keys", seconds) as answer:
            try:
                while line := answer.readline(_LONGEST_KEY):
                    yield line.decode(errors="replace").rstrip("\n")
            except (OSError, http.client.HTTPException) as error:
                raise self._away(error, seconds) from error

    def _read(self, path: str, seconds: float) -> str:
        with self._get(path, seconds) as answer:
            try:
                return answer.read(_LONGEST).decode(errors="replace")
            except (OSError, http.client.HTTPException) as error:
                raise self._away(error, seconds) from error

    @contextlib.contextmanager
    def _get(self, path: str, seconds: float) -> Iterator[http.client.HTTPResponse]:
        link = http.client.HTTPConnection(self.host, self.port, timeout=max(0.01, seconds))
        try:
            try:
                link.request("GET", path)
                answer = link.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise self._away(error, seconds) from error
            if answer.status != http.client.OK:
                raise MasterAway(errno.EPROTO, f"{path} answers {answer.status}", self.address)
            yield answer
        finally:
            link.close()

    def _away(self, error: Exception, seconds: float) -> MasterAway:
        if isinstance(error, TimeoutError):
            return MasterAway(errno.ETIMEDOUT, f"no answer within {seconds:.2g} s", self.address)
        reason = error.strerror if isinstance(error, OSError) else None
        return MasterAway(errno.EHOSTUNREACH, f"the master: {reason or error}", self.address)


def _queries(names: Sequence[str]) -> Iterator[str]:
    """Names in the form that a question for several takes, as many as one may have."""
    part: list[str] = []
    size = 0
    for name in names:
        if not name or "," in name:
            continue
        text = quote(name)
        if part and (len(part) == _QUERY_OBJECTS or size + len(text) > _QUERY_CHARACTERS):
            yield ",".join(part)
            part, size = [], 0
        part.append(text)
        size += len(text) + 1
    if part:
        yield ",".join(part)
