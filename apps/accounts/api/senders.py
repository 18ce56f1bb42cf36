"""Who sends a large body, asked before it is read: what nobody may send is not kept on the disk first."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from io import BytesIO
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.core.handlers.asgi import ASGIRequest
from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.request import Request

from apps.accounts.api.authentication import AccountSessionAuthentication, BearerAuthentication
from apps.accounts.api.permissions import RolePermission
from apps.common.api.errors import handle

Refusal = tuple[int, dict[str, Any]]
_OF_BODIES = (b"content-type", b"content-length", b"transfer-encoding")


async def sender_refusal(scope: MutableMapping[str, Any]) -> Refusal | None:
    """Status and body of the answer to whoever may not change anything; None for who may."""
    return await database_sync_to_async(_refusal)(scope)


def _refusal(scope: MutableMapping[str, Any]) -> Refusal | None:
    headers = [pair for pair in scope["headers"] if pair[0] not in _OF_BODIES]
    plain = ASGIRequest({**scope, "headers": headers}, BytesIO())
    request = Request(plain, authenticators=[BearerAuthentication(), AccountSessionAuthentication()])
    try:
        store = import_module(settings.SESSION_ENGINE).SessionStore
        plain.session = store(plain.COOKIES.get(settings.SESSION_COOKIE_NAME))
        plain.user = get_user(plain)
        permission = RolePermission()
        if not permission.has_permission(request, None):
            raise PermissionDenied(permission.message) if request.user.is_authenticated else NotAuthenticated
    except Exception as error:  # noqa: BLE001 - told as the view would tell it
        answer = handle(error, {"request": request})
        return answer.status_code, answer.data
    return None
