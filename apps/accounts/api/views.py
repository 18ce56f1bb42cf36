"""Accounts and API tokens over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import AdminsOnly, AnyAccount
from apps.accounts.api.serializers import (
    AccountChange,
    AccountInput,
    AccountOutput,
    NewTokenOutput,
    TokenInput,
    TokenOutput,
)
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import account_list, token_list
from apps.accounts.services import account_create, account_remove, account_update, token_create, token_revoke
from apps.common.actor import Role


class AccountViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Accounts; admins only."""

    permission_classes = (AdminsOnly,)
    serializer_class = AccountOutput
    queryset = User.objects.none()
    lookup_field = "username"
    lookup_value_regex = r"[\w.@+-]+"
    search_fields = ("username",)
    ordering_fields = ("username", "role", "created_at", "last_login")

    def get_queryset(self) -> QuerySet[User]:
        return account_list()

    @extend_schema(request=AccountInput, responses={201: AccountOutput})
    def create(self, request: Request) -> Response:
        data = AccountInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = {**data.validated_data, "role": Role(data.validated_data["role"])}
        user = account_create(acting=request.actor, **values)
        return Response(AccountOutput(user).data, status=201)

    @extend_schema(request=AccountChange, responses=AccountOutput)
    def partial_update(self, request: Request, username: str) -> Response:
        data = AccountChange(data=request.data)
        data.is_valid(raise_exception=True)
        user = account_update(acting=request.actor, username=username, changes=data.validated_data)
        return Response(AccountOutput(user).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, username: str) -> Response:
        account_remove(acting=request.actor, username=username)
        return Response(status=204)


class TokenViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """API tokens: one's own, for admins everyone's. DELETE revokes."""

    permission_classes = (AnyAccount,)
    serializer_class = TokenOutput
    queryset = ApiToken.objects.none()
    lookup_value_regex = r"\d+"
    search_fields = ("name", "user__username")
    ordering_fields = ("name", "created_at", "expires_at", "last_used_at")

    def get_queryset(self) -> QuerySet[ApiToken]:
        return token_list(acting=self.request.actor)

    @extend_schema(request=TokenInput, responses={201: NewTokenOutput})
    def create(self, request: Request) -> Response:
        data = TokenInput(data=request.data)
        data.is_valid(raise_exception=True)
        values: dict[str, Any] = {"username": request.actor.name, **data.validated_data}
        values["role"] = Role(values["role"]) if values["role"] else None
        made = token_create(acting=request.actor, **values)
        return Response({**TokenOutput(made.token).data, "token": made.secret}, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        token_revoke(acting=request.actor, token=self.get_object())
        return Response(status=204)
