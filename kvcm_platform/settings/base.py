"""Settings that every environment shares. Values come from `Env`; nothing else reads the environment."""

from __future__ import annotations

from pathlib import Path

from kvcm_platform.settings.env import Env
from kvcm_platform.settings.parts import database, log, mail, queues, rest, security

BASE_DIR = Path(__file__).resolve().parents[2]
ENV = Env()

SECRET_KEY = ENV.secret_key
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"] if ENV.is_loopback else ["*"]
KVCM_REDIS_URL = ENV.redis_url
KVCM_REUSE_QUARANTINE_S = ENV["KVCM_REUSE_QUARANTINE_S"]
KVCM_EVICTIONS_KEPT_S = ENV["KVCM_EVICTIONS_KEPT_S"]
KVCM_INDEX_SHARDS = ENV["KVCM_INDEX_SHARDS"]
KVCM_STORAGE_HEALTH = ENV.storage_health
KVCM_ESTIMATES = ENV["KVCM_ESTIMATES"]
KVCM_OPTIMIZER_FOLDER = ENV.data_dir / "optimizer"
KVCM_TRACE_UPLOAD_BYTES = ENV["KVCM_TRACE_UPLOAD_MB"] << 20
KVCM_TRACES_BYTES = ENV["KVCM_TRACES_GB"] << 30
KVCM_OPTIMIZER_JOBS = ENV["KVCM_OPTIMIZER_JOBS"]
KVCM_OPTIMIZER_MEMORY_BYTES = ENV["KVCM_OPTIMIZER_MEMORY_MB"] << 20
KVCM_OPTIMIZER_RUNS_KEPT = ENV["KVCM_OPTIMIZER_RUNS_KEPT"]
KVCM_ROCKSDB_FOLDER = ENV.rocksdb_folder if ENV["KVCM_INDEX_BACKEND"] == "rocksdb" else None

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "channels",
    "axes",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_celery_beat",
    "apps.common",
    "apps.accounts",
    "apps.audit",
    "apps.storages",
    "apps.instances",
    "apps.control",
    "apps.alerts",
    "apps.copies",
    "apps.capacity",
    "apps.usage",
    "apps.optimizer_reports",
    # Written by their own maintainers; a checkout without one of them still starts.
    *(
        name
        for name in ("apps.live", "apps.cache_index", "apps.health")
        if (BASE_DIR / name.replace(".", "/") / "apps.py").is_file()
    ),
]

MIDDLEWARE = [
    "apps.common.middleware.RequestIdMiddleware",
    "apps.common.middleware.SecurityHeadersMiddleware",
    "apps.common.middleware.NulMiddleware",
    "apps.common.middleware.BodyLimitMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "apps.common.middleware.BundleMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "kvcm_platform.urls"
ASGI_APPLICATION = "kvcm_platform.asgi.application"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]

DATABASES = database.databases(ENV)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CHANNEL_LAYERS = queues.channel_layers(ENV)
globals().update({f"CELERY_{name.upper()}": value for name, value in queues.celery_settings(ENV).items()})

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = security.PASSWORD_VALIDATORS
AXES_FAILURE_LIMIT = security.AXES_FAILURES
AXES_COOLOFF_TIME = security.AXES_COOL_OFF
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "apps.accounts.api.sessions.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

REST_FRAMEWORK = rest.REST_FRAMEWORK
SPECTACULAR_SETTINGS = rest.SPECTACULAR

CONTENT_SECURITY_POLICY = security.CONTENT_SECURITY_POLICY
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "apps.common.api.errors.csrf_failure"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 << 20
# Bodies of files are kept here while they come, nameless; the system's own folder may be memory.
FILE_UPLOAD_TEMP_DIR = ENV.data_dir
KVCM_LARGE_BODIES = {"/api/v1/optimizer/traces": KVCM_TRACE_UPLOAD_BYTES + (1 << 20)}

STATIC_URL = "/static/"
FRONTEND_DIST = BASE_DIR / "frontend" / "dist"
STATIC_ROOT = FRONTEND_DIST
WHITENOISE_INDEX_FILE = False
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_IMMUTABLE_FILE_TEST = r"/assets/.+-[A-Za-z0-9_-]{8,}\.\w+$"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
APPEND_SLASH = False

globals().update(mail.mail_settings(ENV))

LOGGING = log.logging_settings(ENV["KVCM_LOG_LEVEL"])
