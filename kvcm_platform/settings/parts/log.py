"""Logging: one JSON object a line, with the id of the request that caused it."""

from __future__ import annotations

from typing import Any

import structlog

SHARED_PROCESSORS = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.stdlib.ExtraAdder(),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
]


def logging_settings(level: str) -> dict[str, Any]:
    """The value of LOGGING; records of the standard library and of structlog end in the same form."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED_PROCESSORS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.EventRenamer("message"),
                    structlog.processors.JSONRenderer(),
                ],
                "foreign_pre_chain": SHARED_PROCESSORS,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.server": {"handlers": [], "propagate": True},
            "django.request": {"level": "ERROR"},
            "axes": {"level": "WARNING"},
            "asyncio": {"level": "WARNING"},
        },
    }
