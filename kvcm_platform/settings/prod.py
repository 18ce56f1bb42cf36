"""Production: behind TLS, with secrets that were given, not generated. Refuses to start otherwise."""

from kvcm_platform.settings.base import *  # noqa: F403
from kvcm_platform.settings.base import ENV
from kvcm_platform.settings.env import BadSetting

if not ENV["KVCM_SECRET_KEY"]:
    raise BadSetting("KVCM_SECRET_KEY: required in production settings")
if not ENV["DATABASE_URL"]:
    raise BadSetting("DATABASE_URL: production settings need PostgreSQL (postgres://…)")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
