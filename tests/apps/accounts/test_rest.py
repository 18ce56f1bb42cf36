"""Sessions, accounts and tokens over REST (docs/api.md)."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services import token_create
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN, PASSWORD, make_account

pytestmark = pytest.mark.django_db(transaction=True)
LOGIN, LOGOUT, SESSION = "/api/v1/auth/login", "/api/v1/auth/logout", "/api/v1/auth/session"


def signed_in(username: str = "olga") -> APIClient:
    """A browser that has signed in; it must send the CSRF token."""
    client = APIClient(enforce_csrf_checks=True)
    answer = client.post(LOGIN, {"username": username, "password": PASSWORD})
    assert answer.status_code == 204
    return client


def test_session_of_nobody() -> None:
    client = APIClient()
    answer = client.get(SESSION)
    assert answer.json() == {"authenticated": False, "username": None, "role": None, "theme": "system"}
    assert client.cookies["csrftoken"].value


def test_sign_in_change_and_sign_out() -> None:
    make_account()
    client = signed_in()
    expected = {"authenticated": True, "username": "olga", "role": "operator", "theme": "system"}
    assert client.get(SESSION).json() == expected
    assert client.patch(SESSION, {"theme": "dark"}).json()["code"] == "permission_denied"
    token = {"HTTP_X_CSRFTOKEN": client.cookies["csrftoken"].value}
    assert client.patch(SESSION, {"theme": "dark"}, **token).json()["theme"] == "dark"
    assert client.patch(SESSION, {"theme": "pink"}, **token).json()["field"] == "theme"
    assert client.post(LOGOUT, **token).status_code == 204
    assert not client.get(SESSION).json()["authenticated"]


def test_both_forms_of_an_address() -> None:
    make_account()
    answer = APIClient().post(LOGIN + "/", {"username": "olga", "password": PASSWORD})
    assert answer.status_code == 204


def test_lock_out_after_failures() -> None:
    make_account()
    client = APIClient()
    codes = [client.post(LOGIN, {"username": "olga", "password": "wrong"}).json()["code"] for _ in range(5)]
    assert codes == ["unauthenticated"] * 4 + ["too_many_requests"]
    answer = client.post(LOGIN, {"username": "olga", "password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")


def test_form_posts_are_not_read() -> None:
    """What a foreign page can make a browser send is refused before anything is looked at."""
    make_account()
    answer = APIClient().post(
        LOGIN, "username=olga&password=x", content_type="application/x-www-form-urlencoded"
    )
    assert answer.status_code == 415


def test_error_shape_and_request_id(api: Api) -> None:
    answer = APIClient().get("/api/v1/storages/", HTTP_X_REQUEST_ID="my-id.1")
    assert answer.status_code == 401
    assert answer.json() == {
        "code": "unauthenticated",
        "field": None,
        "message": "Authentication credentials were not provided.",
        "request_id": "my-id.1",
    }
    assert answer["X-Request-ID"] == "my-id.1"
    assert APIClient().get(SESSION, HTTP_X_REQUEST_ID="bad id\n")["X-Request-ID"] != "bad id\n"
    bad = APIClient().post(LOGIN, {})
    assert [error["field"] for error in bad.json()["errors"]] == ["username", "password"]
    lost = api(Role.ADMIN).get("/api/v1/nothing")
    assert (lost.status_code, lost.json()["code"]) == (404, "not_found")


def test_accounts_are_an_admins_business(api: Api) -> None:
    body = {"username": "eve", "password": "a long enough secret", "role": "viewer"}
    for role in (Role.VIEWER, Role.OPERATOR, Role.ENGINE):
        assert api(role).get("/api/v1/accounts/").status_code == 403
        assert api(role).post("/api/v1/accounts/", body).status_code == 403
    admin = api(Role.ADMIN)
    weak = admin.post("/api/v1/accounts/", {**body, "password": "short"})
    assert (weak.status_code, weak.json()["field"]) == (400, "password")
    made = admin.post("/api/v1/accounts/", body)
    assert made.status_code == 201
    assert "password" not in made.json()
    assert admin.post("/api/v1/accounts/", body).status_code == 409
    changed = admin.patch("/api/v1/accounts/eve/", {"role": "operator", "password": "another long secret"})
    assert changed.json()["role"] == "operator"
    assert User.objects.get(username="eve").check_password("another long secret")
    entry = AuditEntry.objects.get(action="account.update", object_name="eve")
    assert entry.after == {"is_password_changed": True, "role": "operator"}
    assert admin.delete("/api/v1/accounts/eve/").status_code == 204


def test_the_last_admin_stays(api: Api) -> None:
    admin = api(Role.ADMIN)
    (username,) = User.objects.values_list("username", flat=True)
    for answer in (
        admin.patch(f"/api/v1/accounts/{username}/", {"role": "viewer"}),
        admin.patch(f"/api/v1/accounts/{username}/", {"is_active": False}),
        admin.patch(f"/api/v1/accounts/{username}/", {"groups": ["chat"]}),
        admin.delete(f"/api/v1/accounts/{username}/"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert User.objects.get().role == "admin"


def test_tokens(api: Api) -> None:
    operator = api(Role.OPERATOR)
    made = operator.post("/api/v1/api-tokens/", {"name": "ci", "role": "viewer"})
    assert made.status_code == 201
    secret = made.json()["token"]
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert client.get(SESSION).json()["role"] == "viewer"
    assert client.post("/api/v1/storages/", {}).status_code == 403
    listed = operator.get("/api/v1/api-tokens/?ordering=name").json()["results"]
    assert [(row["name"], "token" in row) for row in listed] == [("ci", False), ("test", False)]
    other = api(Role.VIEWER)
    assert other.get("/api/v1/api-tokens/").json()["count"] == 1
    assert other.delete(f"/api/v1/api-tokens/{made.json()['id']}/").status_code == 404
    assert operator.delete(f"/api/v1/api-tokens/{made.json()['id']}/").status_code == 204
    assert client.get("/api/v1/storages/").status_code == 401
    assert operator.post("/api/v1/api-tokens/", {"name": "x", "role": "admin"}).status_code == 403


def test_an_admin_limited_to_groups_cannot_change_accounts(api: Api) -> None:
    """It would lift its own limit, or make an account without one."""
    limited = api(Role.ADMIN, groups=["chat"])
    (username,) = User.objects.values_list("username", flat=True)
    body = {"username": "eve", "password": "a long enough secret", "role": "admin"}
    for answer in (
        limited.patch(f"/api/v1/accounts/{username}/", {"groups": None}),
        limited.post("/api/v1/accounts/", body),
        limited.delete(f"/api/v1/accounts/{username}/"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert User.objects.get().groups == ["chat"]


def test_an_admin_limited_to_groups_sees_its_own_tokens_alone(api: Api) -> None:
    other = api(Role.OPERATOR).get("/api/v1/api-tokens/").json()["results"][0]
    limited = api(Role.ADMIN, groups=["chat"])
    assert limited.get("/api/v1/api-tokens/").json()["count"] == 1
    assert limited.delete(f"/api/v1/api-tokens/{other['id']}/").status_code == 404
    answer = limited.post("/api/v1/api-tokens/", {"name": "x", "username": other["username"]})
    assert answer.status_code == 403


def test_a_token_without_any_right_left_is_refused() -> None:
    make_account("olga", Role.OPERATOR)
    secret = token_create(acting=ADMIN, username="olga", name="t", role=Role.ENGINE).secret
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert client.get(SESSION).json()["role"] == "engine"
    User.objects.update(role="viewer")
    answer = client.get("/api/v1/storages/")
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
