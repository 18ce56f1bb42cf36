"""Accounts of people and their API tokens."""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.utils import timezone

from apps.accounts.choices import ROLES, THEMES
from apps.common.actor import Role


class UserManager(BaseUserManager):
    """Look-ups only; accounts are made by `services.account_create`."""


class User(AbstractBaseUser):
    """One account. `groups` null = every instance group, else the names it is limited to."""

    username = models.CharField(max_length=150, unique=True)
    role = models.CharField(max_length=16, choices=ROLES, default=Role.VIEWER.value)
    groups = models.JSONField(null=True, blank=True)
    theme = models.CharField(max_length=8, choices=THEMES, default="system")
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UserManager()
    USERNAME_FIELD = "username"

    class Meta:
        ordering = ["username"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]), name="account_role_is_known"
            )
        ]

    def __str__(self) -> str:
        return self.username


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is kept: the secret has 256 random bits, so no salt is needed."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    prefix = models.CharField(max_length=16)
    role = models.CharField(max_length=16, choices=ROLES, blank=True)
    groups = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"],
                condition=models.Q(revoked_at__isnull=True),
                name="live_token_name_is_unique_per_account",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id}/{self.name}"

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())
