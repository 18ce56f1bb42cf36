"""Django's settings of e-mail."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from kvcm_platform.settings.env import Env
from kvcm_platform.settings.mail import parse_mail_url

_BACKENDS = {
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "file": "django.core.mail.backends.filebased.EmailBackend",
    "console": "django.core.mail.backends.console.EmailBackend",
}
TIMEOUT_SECONDS = 20


def mail_settings(env: Env) -> dict[str, Any]:
    """Every EMAIL_ setting, and who sends."""
    server = parse_mail_url(env["KVCM_MAIL_URL"] or f"file://{quote(str(env.data_dir / 'mail'))}")
    return {
        "EMAIL_BACKEND": _BACKENDS[server.kind],
        "EMAIL_FILE_PATH": server.folder,
        "EMAIL_HOST": server.host,
        "EMAIL_PORT": server.port,
        "EMAIL_HOST_USER": server.user,
        "EMAIL_HOST_PASSWORD": server.password,
        "EMAIL_USE_TLS": server.starts_tls,
        "EMAIL_USE_SSL": server.is_tls,
        "EMAIL_TIMEOUT": TIMEOUT_SECONDS,
        "DEFAULT_FROM_EMAIL": env["KVCM_MAIL_FROM"],
    }
