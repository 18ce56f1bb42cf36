"""The Celery application of the worker and of beat. Tasks live in apps/*/tasks.py."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvcm_platform.settings.dev")

app = Celery("kvcm")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
