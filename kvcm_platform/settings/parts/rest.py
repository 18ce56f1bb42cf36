"""Django REST framework and the OpenAPI document."""

from __future__ import annotations

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.api.authentication.BearerAuthentication",
        "apps.accounts.api.authentication.AccountSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.accounts.api.permissions.ReadsAsViewer"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.common.api.parsers.TextJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "apps.common.api.pagination.Pages",
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "apps.common.api.search.FewWordsSearch",
        "apps.common.api.ordering.StableOrdering",
    ],
    "DEFAULT_SCHEMA_CLASS": "apps.common.api.schema.ApiSchema",
    "EXCEPTION_HANDLER": "apps.common.api.errors.handle",
    # Counted in each web process. What has a scope says so itself.
    "DEFAULT_THROTTLE_RATES": {"storage-trial": "30/min"},
    "COERCE_DECIMAL_TO_STRING": False,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR: dict[str, Any] = {
    "TITLE": "KVCM Platform",
    "DESCRIPTION": "REST interface of the manager of KV caches.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SORT_OPERATIONS": True,
    "ENUM_NAME_OVERRIDES": {
        "SeverityEnum": "apps.alerts.choices.SEVERITIES",
        "RunStateEnum": "apps.copies.choices.RUN_STATES",
        "TypeEnum": "apps.storages.choices.STORAGE_TYPES",
        "UsageKindEnum": "apps.usage.choices.ROW_KINDS",
        "ReclaimRunStateEnum": "apps.capacity.choices.RECLAIM_STATES",
        "ReclaimTriggerEnum": "apps.capacity.choices.TRIGGERS",
        "ReportSourceEnum": "apps.optimizer_reports.choices.REPORT_SOURCES",
        "RunOriginEnum": "apps.optimizer_reports.choices.RUN_ORIGINS",
        "OptimizerTraceStateEnum": "apps.optimizer_reports.choices.TRACE_STATES",
        "OptimizerTraceSourceEnum": "apps.optimizer_reports.choices.TRACE_SOURCES",
    },
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}
