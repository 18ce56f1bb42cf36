"""Settings of `make up` and of development: loopback, plain HTTP, a bundle that may be rebuilt meanwhile."""

from kvcm_platform.settings.base import *  # noqa: F403

WHITENOISE_AUTOREFRESH = True
CSRF_TRUSTED_ORIGINS = ["http://localhost:5173", "http://127.0.0.1:5173"]
