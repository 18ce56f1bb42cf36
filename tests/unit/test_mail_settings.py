"""Where e-mail goes, by one address."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcm_platform.settings.env import BadSetting, Env
from kvcm_platform.settings.mail import MailServer, parse_mail_url
from kvcm_platform.settings.parts.mail import mail_settings


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.org", MailServer("smtp", "mail.example.org", 25)),
        (
            "smtp+starttls://ada:p%40ss@mail.example.org",
            MailServer("smtp", "mail.example.org", 587, "ada", "p@ss", starts_tls=True),
        ),
        (
            "smtps://ada:x@mail.example.org:1465/",
            MailServer("smtp", "mail.example.org", 1465, "ada", "x", is_tls=True),
        ),
        ("file:///var/mail%20out", MailServer("file", folder="/var/mail out")),
        ("console:", MailServer("console")),
    ],
)
def test_addresses(url: str, server: MailServer) -> None:
    assert parse_mail_url(url) == server


@pytest.mark.parametrize(
    "url", ["mail.example.org", "http://x", "smtp://", "smtp://h:99999", "smtp://h/path", "file://folder"]
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadSetting, match="KVCM_MAIL_URL"):
        Env({"KVCM_MAIL_URL": url})
    with pytest.raises(BadSetting) as refused:
        Env({"KVCM_MAIL_URL": "gopher://ada:secret@h"})
    assert "secret" not in str(refused.value)


def test_settings_of_django(tmp_path: Path) -> None:
    found = mail_settings(Env({"KVCM_DATA_DIR": str(tmp_path / "a b")}))
    assert found["EMAIL_BACKEND"].endswith("filebased.EmailBackend")
    assert found["EMAIL_FILE_PATH"] == str(tmp_path / "a b" / "mail")
    found = mail_settings(Env({"KVCM_MAIL_URL": "smtps://u:p@h", "KVCM_MAIL_FROM": "kvcm@example.org"}))
    assert (found["EMAIL_USE_SSL"], found["EMAIL_USE_TLS"], found["EMAIL_PORT"]) == (True, False, 465)
    assert found["DEFAULT_FROM_EMAIL"] == "kvcm@example.org" and found["EMAIL_TIMEOUT"] > 0
