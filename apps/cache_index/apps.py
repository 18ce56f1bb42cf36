from django.apps import AppConfig


class CacheIndexConfig(AppConfig):
    name = "apps.cache_index"
    default_auto_field = "django.db.models.BigAutoField"
