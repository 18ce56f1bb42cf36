from django.apps import AppConfig


class StoragesConfig(AppConfig):
    name = "apps.storages"
    default_auto_field = "django.db.models.BigAutoField"
