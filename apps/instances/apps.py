from django.apps import AppConfig


class InstancesConfig(AppConfig):
    name = "apps.instances"
    default_auto_field = "django.db.models.BigAutoField"
