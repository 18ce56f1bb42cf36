"""The front end's page, its files, and the headers of every answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def bundle(tmp_path: Path, settings) -> Path:
    """A built front end."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>built</title>")
    (tmp_path / "assets" / "app-AbCd1234.js").write_text("1")
    (tmp_path / "favicon.svg").write_text("<svg/>")
    settings.FRONTEND_DIST = settings.STATIC_ROOT = tmp_path
    return tmp_path


@pytest.mark.parametrize(
    "address", ["/", "/login", "/storages", "/storages/nfs_01", "/groups/a", "/instances/org%2Fmodel"]
)
def test_the_page_at_its_addresses(bundle: Path, address: str) -> None:
    answer = Client().get(address)
    assert (answer.status_code, b"built" in answer.content) == (200, True)
    assert answer.cookies["csrftoken"].value
    assert "no-store" in answer["Cache-Control"]


def test_missing_bundle_says_what_to_run(tmp_path: Path, settings) -> None:
    settings.FRONTEND_DIST = tmp_path
    answer = Client().get("/")
    assert (answer.status_code, b"make setup" in answer.content) == (503, True)


def test_files_of_the_bundle(bundle: Path) -> None:
    hashed = Client().get("/static/assets/app-AbCd1234.js")
    assert (hashed.status_code, hashed.content, hashed.streaming) == (200, b"1", False)
    assert "immutable" in hashed["Cache-Control"]
    assert "javascript" in hashed["Content-Type"]
    assert "immutable" not in Client().get("/static/favicon.svg")["Cache-Control"]
    assert Client().get("/static/../secret_key").status_code == 404


def test_headers() -> None:
    answer = Client().get("/api/v1/auth/session")
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
    assert (answer["X-Content-Type-Options"], answer["X-Frame-Options"]) == ("nosniff", "DENY")
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Request-ID"]


def test_unknown_address_and_host() -> None:
    lost = Client().get("/wp-admin")
    assert (lost.status_code, lost.json()["code"]) == (404, "not_found")
    assert Client().get("/", HTTP_HOST="evil.example").status_code == 400


def test_body_that_is_too_large() -> None:
    answer = Client().post("/api/v1/auth/login", b" " * ((8 << 20) + 1), content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")
    assert answer["X-Request-ID"]
