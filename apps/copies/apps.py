from django.apps import AppConfig


class CopiesConfig(AppConfig):
    name = "apps.copies"
    default_auto_field = "django.db.models.BigAutoField"
