"""Whether the sender of a large body may send it, asked before the body is read."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from apps.accounts.api.senders import sender_refusal
from apps.common.actor import Role
from tests.apps.conftest import Api

pytestmark = pytest.mark.django_db(transaction=True)


def refused(**headers: str) -> tuple[int, str] | None:
    """Status and code, of an upload with these headers."""
    given = {"content-type": "multipart/form-data; boundary=x", "content-length": "99999999", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/optimizer/traces/",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
    }
    answer = async_to_sync(sender_refusal)(scope)
    return None if answer is None else (answer[0], answer[1]["code"])


def test_tokens(api: Api) -> None:
    def token(role: Role) -> str:
        return api(role)._credentials["HTTP_AUTHORIZATION"]

    assert refused() == (401, "unauthenticated")
    assert refused(authorization="Bearer kvcm_made-up") == (401, "unauthenticated")
    assert refused(authorization=token(Role.VIEWER)) == (403, "permission_denied")
    assert refused(authorization=token(Role.OPERATOR)) is None


def test_the_session_of_the_page_with_its_token(api: Api, django_user_model) -> None:
    user = django_user_model.objects.create(username="ada", role="operator")
    client = Client()
    client.force_login(user)
    client.get("/api/v1/auth/session")
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    assert refused(cookie=cookie) == (403, "permission_denied")
    assert refused(cookie=cookie, x_csrftoken=cookies["csrftoken"]) is None
    assert refused(cookie="sessionid=made-up") == (401, "unauthenticated")
