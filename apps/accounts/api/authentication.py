"""Who calls REST: a bearer token, or the session cookie of the web page."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import actor_of, token_get
from apps.accounts.services import token_touch
from kvcm_platform.core.errors import DomainError

_SCHEME = "bearer"


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`; notes who acts as `request.actor`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != _SCHEME or not secret.strip():
            raise AuthenticationFailed("use Authorization: Bearer TOKEN")
        try:
            token = token_get(secret=secret.strip())
        except DomainError as error:
            raise AuthenticationFailed(error.message) from error
        token_touch(token=token, now=timezone.now())
        _note_actor(request, token.user, token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AccountSessionAuthentication(SessionAuthentication):
    """The web page's session; changes need the CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        found = super().authenticate(request)
        if found is not None:
            _note_actor(request, found[0], None)
        return found


def _note_actor(request: Request, user: User, token: ApiToken | None) -> None:
    request.actor = actor_of(
        user=user,
        token=token,
        address=request.META.get("REMOTE_ADDR", ""),
        request_id=getattr(request, "request_id", ""),
    )


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = BearerAuthentication
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": _SCHEME}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = AccountSessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
