"""Whether the objects of locations are where the index says, asked of their storages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kvcm_platform.core.deletion import UNKNOWN_STORAGE
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.duties.deleters import Deleters
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index.codec import StoredLocation


class CannotBeAsked(Exception):
    """A storage whose objects cannot be looked at now; the sentence names it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number


class Presence:
    """Opens the storages that it is asked about, until `close`."""

    def __init__(self, session: IndexSession) -> None:
        self._backends = Deleters(session)

    async def of(self, locations: Sequence[StoredLocation]) -> list[bool]:
        """A location on a storage that is not configured, or whose kind deletes nothing, lost nothing.

        Raises CannotBeAsked.
        """
        answers = [True] * len(locations)
        by_storage: dict[int, list[int]] = defaultdict(list)
        for index, location in enumerate(locations):
            by_storage[location.storage_number].append(index)
        for number, indexes in by_storage.items():
            backend = self._backends.backend(number)
            if backend is None or backend == UNKNOWN_STORAGE:
                continue
            if isinstance(backend, str):
                raise CannotBeAsked(number, backend)
            uris = [[parse_uri(uri) for _, uri in locations[index].specs()] for index in indexes]
            try:
                found = iter(await backend.exist([uri for each in uris for uri in each]))
            except OSError as error:
                raise CannotBeAsked(number, f"{backend.entry.name}: {error}") from error
            for index, each in zip(indexes, uris, strict=True):
                present = [next(found) for _ in each]
                answers[index] = all(present)
        return answers

    async def close(self) -> None:
        await self._backends.close()
