from django.apps import AppConfig


class OptimizerReportsConfig(AppConfig):
    name = "apps.optimizer_reports"
    default_auto_field = "django.db.models.BigAutoField"
