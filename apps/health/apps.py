from django.apps import AppConfig


class HealthConfig(AppConfig):
    name = "apps.health"

    def ready(self) -> None:
        from apps.health.heartbeats import connect_celery

        connect_celery()
