"""The live socket: who is there, which topics, snapshot first, then changes. It only forwards."""

from __future__ import annotations

import time
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer

from .access import Access
from .snapshots import FeedUnavailable
from .topics import refusal, topics

_RECHECK_SECONDS = 15.0
_TOPICS_A_SOCKET = 20
_USAGE = 'Send {"op": "subscribe" or "unsubscribe", "topics": [...]}.'


class LiveConsumer(AsyncJsonWebsocketConsumer):
    """One browser tab. `_seq` holds the number of the last message sent on each subscribed topic."""

    async def connect(self) -> None:
        self._seq: dict[str, int] = {}
        self._access = Access(self.scope)
        self._owner, self._checked_at = await self._access.owner(), time.monotonic()
        await (self.close() if self._owner is None else self.accept())

    async def disconnect(self, code: int) -> None:
        for name in list(self._seq):
            await self._unsubscribe(name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        try:
            content = await self.decode_json(text_data or "")
            op, topics = content["op"], [str(name) for name in content["topics"]][:_TOPICS_A_SOCKET]
            act = {"subscribe": self._subscribe, "unsubscribe": self._unsubscribe}[op]
        except (ValueError, KeyError, TypeError, RecursionError):
            await self._refuse("", "invalid_argument", _USAGE)
            return
        for name in topics:
            await act(name)

    async def _subscribe(self, name: str) -> None:
        if name in self._seq:
            return
        if refused := refusal(name, self._owner):
            await self._refuse(name, *refused)
            return
        feed = topics()[name].feed()
        feed.subscribers += 1
        # Joined before the snapshot is taken, so that no change falls between the two.
        self._seq[name] = -1
        await self.channel_layer.group_add(feed.group, self.channel_name)
        try:
            snapshot = await feed.snapshot()
        except FeedUnavailable as error:
            await self._unsubscribe(name)
            await self._refuse(name, "service_not_ready", str(error))
            return
        self._seq[name] = snapshot["seq"]
        await self.send_json(topics()[name].shown(snapshot, self._owner))

    async def _unsubscribe(self, name: str) -> None:
        if self._seq.pop(name, None) is not None:
            feed = topics()[name].feed()
            feed.subscribers -= 1
            await self.channel_layer.group_discard(feed.group, self.channel_name)

    async def live_message(self, event: dict[str, Any]) -> None:
        message = event["message"]
        name = message["topic"]
        if time.monotonic() - self._checked_at > _RECHECK_SECONDS:
            self._owner, self._checked_at = await self._access.owner(), time.monotonic()
        if (refused := refusal(name, self._owner)) and name in self._seq:
            await self._unsubscribe(name)
            await self._refuse(name, *refused)
        elif message["seq"] > self._seq.get(name, message["seq"]):
            self._seq[name] = message["seq"]
            await self.send_json(topics()[name].shown(message, self._owner))

    async def _refuse(self, name: str, code: str, sentence: str) -> None:
        await self.send_json({"topic": name, "kind": "error", "code": code, "message": sentence})


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Any other address: refused like a page that does not exist, without a traceback."""

    async def connect(self) -> None:
        await self.close()
