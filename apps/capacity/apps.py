from django.apps import AppConfig


class CapacityConfig(AppConfig):
    name = "apps.capacity"
    default_auto_field = "django.db.models.BigAutoField"
