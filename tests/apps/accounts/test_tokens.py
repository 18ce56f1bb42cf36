"""API tokens: what is kept, what they allow, when they end."""

from __future__ import annotations

import hashlib
import io
from datetime import timedelta

import pytest
import redis
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.accounts.selectors import actor_of, token_get
from apps.accounts.services import account_remove, account_update, token_create, token_revoke, token_touch
from apps.common.actor import Actor, Role
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import keyspace
from tests.factories.actors import ADMIN, make_account, make_token

pytestmark = pytest.mark.django_db(transaction=True)


def refused(secret: str) -> Code:
    with pytest.raises(DomainError) as caught:
        token_get(secret=secret)
    return caught.value.code


def test_only_the_digest_is_kept() -> None:
    secret = make_token()
    assert secret.startswith("kvcm_")
    assert len(secret) >= len("kvcm_") + 43  # 256 bits in base64
    row = ApiToken.objects.get()
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(list(ApiToken.objects.values()))
    assert token_get(secret=secret) == row


def test_when_a_token_ends() -> None:
    make_account()
    secret = token_create(
        acting=ADMIN, username="olga", name="t", expires_at=timezone.now() + timedelta(hours=1)
    ).secret
    assert refused("kvcm_unknown") is Code.UNAUTHENTICATED
    assert refused("") is Code.UNAUTHENTICATED
    row = token_get(secret=secret)
    ApiToken.objects.update(expires_at=timezone.now())
    assert refused(secret) is Code.UNAUTHENTICATED
    ApiToken.objects.update(expires_at=None)
    account_update(acting=ADMIN, username=make_account("ada", Role.ADMIN).username, changes={})
    account_update(acting=ADMIN, username="olga", changes={"is_active": False})
    assert refused(secret) is Code.UNAUTHENTICATED
    account_update(acting=ADMIN, username="olga", changes={"is_active": True})
    token_revoke(acting=ADMIN, token=row)
    assert refused(secret) is Code.UNAUTHENTICATED


def test_scope_narrows_and_never_widens() -> None:
    make_account("olga", Role.OPERATOR, groups=["chat", "search"])
    make_account("ada", Role.ADMIN)
    made = token_create(acting=ADMIN, username="olga", name="t", role=Role.VIEWER, groups=["chat", "other"])
    actor = actor_of(user=made.token.user, token=made.token)
    assert (actor.role, actor.groups) == (Role.VIEWER, frozenset({"chat"}))
    strong = token_create(acting=ADMIN, username="olga", name="strong", role=Role.OPERATOR)
    account_update(acting=ADMIN, username="olga", changes={"role": "engine"})
    fresh = token_get(secret=strong.secret)
    assert actor_of(user=fresh.user, token=fresh).role is Role.ENGINE
    with pytest.raises(DomainError) as caught:
        token_create(acting=ADMIN, username="olga", name="more", role=Role.OPERATOR)
    assert caught.value.code is Code.PERMISSION_DENIED


def test_a_scoped_token_makes_no_stronger_one() -> None:
    make_account("olga", Role.OPERATOR)
    acting = Actor(name="olga", role=Role.VIEWER, groups=frozenset({"chat"}), token_name="weak")
    made = token_create(acting=acting, username="olga", name="t")
    assert (made.token.role, made.token.groups) == ("viewer", ["chat"])


def test_an_engines_token_never_reads_pages() -> None:
    """Engine and viewer have no right in common, so nothing is left of an engine's token of a viewer."""
    make_account("ada", Role.ADMIN)
    make_account("olga", Role.OPERATOR)
    made = token_create(acting=ADMIN, username="olga", name="t", role=Role.ENGINE)
    account_update(acting=ADMIN, username="olga", changes={"role": "viewer"})
    fresh = token_get(secret=made.secret)
    with pytest.raises(DomainError) as caught:
        actor_of(user=fresh.user, token=fresh)
    assert caught.value.code is Code.PERMISSION_DENIED


def test_a_token_makes_none_that_lives_longer() -> None:
    make_account("olga", Role.OPERATOR)
    end = timezone.now() + timedelta(minutes=5)
    first = token_create(acting=ADMIN, username="olga", name="short", expires_at=end).token
    acting = actor_of(user=first.user, token=first)
    later, sooner = end + timedelta(days=1), end - timedelta(minutes=1)
    for name, asked, given in (("a", None, end), ("b", later, end), ("c", sooner, sooner)):
        made = token_create(acting=acting, username="olga", name=name, expires_at=asked)
        assert made.token.expires_at == given


def test_a_scoped_token_makes_none_that_grows_with_its_account() -> None:
    make_account("olga", Role.VIEWER)
    scoped = token_create(acting=ADMIN, username="olga", name="scoped", role=Role.VIEWER).token
    made = token_create(acting=actor_of(user=scoped.user, token=scoped), username="olga", name="t")
    assert made.token.role == "viewer"


def test_an_admins_token_makes_tokens_of_others() -> None:
    make_account("olga", Role.OPERATOR)
    ada = token_create(acting=ADMIN, username=make_account("ada", Role.ADMIN).username, name="t").token
    made = token_create(acting=actor_of(user=ada.user, token=ada), username="olga", name="t")
    assert actor_of(user=made.token.user, token=made.token).role is Role.OPERATOR


def test_last_use_is_written_once_a_minute(django_assert_num_queries) -> None:
    token = token_get(secret=make_token())
    now = timezone.now()
    with django_assert_num_queries(1):
        token_touch(token=token, now=now)
    token.refresh_from_db()
    with django_assert_num_queries(0):
        token_touch(token=token, now=now + timedelta(seconds=59))
    with django_assert_num_queries(1):
        token_touch(token=token, now=now + timedelta(seconds=61))


def test_the_data_plane_learns_of_tokens(index: redis.Redis) -> None:
    make_account("ada", Role.ADMIN)
    make_account("olga", Role.OPERATOR)
    made = token_create(acting=ADMIN, username="olga", name="t", groups=["chat"])
    digest = made.token.digest.encode()
    assert index.hgetall(keyspace.TOKENS) == {
        digest: b'{"expires_at": null, "groups": ["chat"], "role": "operator"}'
    }
    account_update(acting=ADMIN, username="olga", changes={"role": "viewer"})
    assert not index.hexists(keyspace.TOKENS, digest)
    account_update(acting=ADMIN, username="olga", changes={"role": "engine"})
    assert index.hexists(keyspace.TOKENS, digest)
    account_remove(acting=ADMIN, username="olga")
    assert not index.hexists(keyspace.TOKENS, digest)


def test_create_token_command() -> None:
    make_account("ada", Role.ADMIN)
    out = io.StringIO()
    call_command("create_token", "--username", "ada", "--name", "ci", stdout=out)
    assert token_get(secret=out.getvalue().split()[-1]).name == "ci"
    out = io.StringIO()
    arguments = ("--scope", "engine", "--scope", "group:chat", "--expires-days", "1")
    call_command("create_token", "--username", "ada", "--name", "engine", *arguments, stdout=out)
    token = token_get(secret=out.getvalue().split()[-1])
    assert (token.role, token.groups, token.expires_at is None) == ("engine", ["chat"], False)
    for bad in (("--username", "nobody", "--name", "x"), ("--username", "ada", "--name", "ci")):
        with pytest.raises(CommandError):
            call_command("create_token", *bad)
    with pytest.raises(CommandError, match="unknown role"):
        call_command("create_token", "--username", "ada", "--name", "y", "--scope", "king")
