"""Who is at the other end of a socket, asked when it opens and again while it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from channels.auth import get_user
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import signing

from apps.common.actor import Actor, Role

TICKET_SECONDS = 60
_SALT = "kvcm.live.ticket"


def ticket_issue(*, acting: Actor) -> str:
    """A text that opens one's sockets for a minute: browsers send no headers with WebSockets."""
    groups = None if acting.groups is None else sorted(acting.groups)
    return signing.dumps({"name": acting.name, "role": acting.role.value, "groups": groups}, salt=_SALT)


class Access:
    """Finds a socket's owner: by its ticket when it has one, else by the session cookie."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        query = parse_qs(scope.get("query_string", b"").decode())
        self._ticket = query["token"][0] if "token" in query else None
        self._session_key = getattr(scope.get("session"), "session_key", None)
        self._claim: dict[str, Any] | None = None

    async def owner(self) -> Actor | None:
        """The owner with the rights it has now; None for nobody, a disabled account, an ended session."""
        if self._ticket is not None:
            return await sync_to_async(self._owner_by_ticket)()
        if self._session_key is None:
            return None
        store = import_module(settings.SESSION_ENGINE).SessionStore(self._session_key)
        user = await get_user({"session": store})
        return _account(user) if user.is_authenticated and user.is_active else None

    def _owner_by_ticket(self) -> Actor | None:
        if self._claim is None:
            # The minute is for opening; an open socket lives on with what the ticket said.
            try:
                self._claim = signing.loads(self._ticket or "", salt=_SALT, max_age=TICKET_SECONDS)
            except signing.BadSignature:
                return None
        user = get_user_model().objects.filter(username=self._claim["name"], is_active=True).first()
        if user is None:
            return None
        return _account(user).narrowed(role=Role(self._claim["role"]), groups=self._claim["groups"])


def _account(user: Any) -> Actor:
    return Actor(
        name=user.username,
        role=Role(user.role),
        groups=None if user.groups is None else frozenset(user.groups),
    )
