from django.apps import AppConfig


class ControlConfig(AppConfig):
    name = "apps.control"
    default_auto_field = "django.db.models.BigAutoField"
