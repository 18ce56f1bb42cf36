from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "apps.alerts"
    default_auto_field = "django.db.models.BigAutoField"
