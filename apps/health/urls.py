"""Addresses at the root, outside /api/v1/."""

from django.urls import path

from . import views

urlpatterns = [
    path("healthz/live", views.live, name="healthz-live"),
    path("healthz/ready", views.ready, name="healthz-ready"),
    path("metrics", views.metrics, name="metrics"),
]
