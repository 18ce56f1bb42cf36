"""Shapes of sessions, accounts and tokens."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.choices import ROLES, THEMES


class LoginInput(serializers.Serializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False)


class ThemeInput(serializers.Serializer):
    theme = serializers.ChoiceField(choices=THEMES)


class SessionOutput(serializers.Serializer):
    """Who is signed in; for anonymous callers too."""

    authenticated = serializers.BooleanField()
    username = serializers.CharField(allow_null=True)
    role = serializers.ChoiceField(choices=ROLES, allow_null=True)
    theme = serializers.ChoiceField(choices=THEMES)


class GroupScopeField(serializers.ListField):
    """Names of instance groups; null = every group."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(child=serializers.CharField(max_length=128), allow_null=True, **kwargs)


class AccountInput(serializers.Serializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, write_only=True)
    role = serializers.ChoiceField(choices=ROLES)
    groups = GroupScopeField(required=False, default=None)


class AccountChange(serializers.Serializer):
    password = serializers.CharField(max_length=4096, trim_whitespace=False, required=False, write_only=True)
    role = serializers.ChoiceField(choices=ROLES, required=False)
    groups = GroupScopeField(required=False)
    is_active = serializers.BooleanField(required=False)


class AccountOutput(serializers.Serializer):
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    groups = GroupScopeField()
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    last_login = serializers.DateTimeField(allow_null=True)


class TokenInput(serializers.Serializer):
    name = serializers.CharField(max_length=100)
    username = serializers.CharField(max_length=150, required=False)
    role = serializers.ChoiceField(choices=ROLES, allow_null=True, required=False, default=None)
    groups = GroupScopeField(required=False, default=None)
    expires_at = serializers.DateTimeField(allow_null=True, required=False, default=None)


class TokenOutput(serializers.Serializer):
    id = serializers.IntegerField()
    username = serializers.CharField(source="user.username")
    name = serializers.CharField()
    prefix = serializers.CharField()
    role = serializers.CharField(help_text="empty = the account's role")
    groups = GroupScopeField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="the secret; shown here and never again")
