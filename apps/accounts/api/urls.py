"""Addresses below /api/v1/."""

from django.urls import re_path

from apps.accounts.api.sessions import LoginView, LogoutView, SessionView
from apps.accounts.api.views import AccountViewSet, TokenViewSet
from apps.common.api.routers import Router

router = Router()
router.register("accounts", AccountViewSet, basename="account")
router.register("api-tokens", TokenViewSet, basename="api-token")

urlpatterns = [
    re_path(r"^auth/login/?$", LoginView.as_view(), name="login"),
    re_path(r"^auth/logout/?$", LogoutView.as_view(), name="logout"),
    re_path(r"^auth/session/?$", SessionView.as_view(), name="session"),
    *router.urls,
]
