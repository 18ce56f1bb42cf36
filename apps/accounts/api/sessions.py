"""Sign in, sign out, and who is signed in."""

from __future__ import annotations

from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.api.permissions import AnyAccount
from apps.accounts.api.serializers import LoginInput, SessionOutput, ThemeInput
from apps.accounts.services import theme_set
from apps.common.api.errors import json_response
from kvcm_platform.core.errors import Code, DomainError


def locked_out(request: HttpRequest, *_: object) -> HttpResponse:
    """What django-axes answers in the place of a login that came after too many failures."""
    return json_response(Code.TOO_MANY, "too many failed attempts; try again in 15 minutes", request)


def _session(request: Request) -> Response:
    """The session as the web page sees it; sets the CSRF cookie."""
    get_token(request._request)
    user = request.user
    is_known = user.is_authenticated
    data = {
        "authenticated": is_known,
        "username": user.username if is_known else None,
        "role": request.actor.role if is_known else None,
        "theme": user.theme if is_known else "system",
    }
    return Response(data)


class LoginView(APIView):
    """Sign in. It reads JSON alone, which no foreign page can make a browser send."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(operation_id="login", request=LoginInput, responses={204: None}, auth=[])
    def post(self, request: Request) -> Response:
        data = LoginInput(data=request.data)
        data.is_valid(raise_exception=True)
        user = authenticate(request._request, **data.validated_data)
        if user is None:
            raise DomainError(Code.UNAUTHENTICATED, "unknown username or wrong password")
        login(request._request, user)
        return Response(status=204)


class LogoutView(APIView):
    """Sign out; for somebody who is not signed in nothing changes."""

    permission_classes = (AllowAny,)

    @extend_schema(operation_id="logout", request=None, responses={204: None})
    def post(self, request: Request) -> Response:
        logout(request._request)
        return Response(status=204)


class SessionView(APIView):
    """Who is signed in."""

    def get_permissions(self) -> list:
        return [AllowAny() if self.request.method == "GET" else AnyAccount()]

    @extend_schema(operation_id="session", responses=SessionOutput)
    def get(self, request: Request) -> Response:
        return _session(request)

    @extend_schema(operation_id="session_update", request=ThemeInput, responses=SessionOutput)
    def patch(self, request: Request) -> Response:
        data = ThemeInput(data=request.data)
        data.is_valid(raise_exception=True)
        theme_set(user=request.user, theme=data.validated_data["theme"])
        return _session(request)
