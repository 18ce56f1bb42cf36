"""Every URL of the `web` process."""

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from apps.common.api.schema import SCHEMA_PERMISSIONS
from apps.common.web import page

api = [
    path("", include("apps.accounts.api.urls")),
    path("", include("apps.audit.api.urls")),
    path("", include("apps.storages.api.urls")),
    path("", include("apps.instances.api.urls")),
    path("", include("apps.live.api.urls")),
    path("", include("apps.alerts.api.urls")),
    path("", include("apps.copies.api.urls")),
    path("", include("apps.usage.api.urls")),
    path("", include("apps.capacity.api.urls")),
    path("optimizer/", include("apps.optimizer_reports.api.urls")),
    re_path(
        r"^schema/?$",
        SpectacularJSONAPIView.as_view(permission_classes=SCHEMA_PERMISSIONS, schema=None),
        name="schema",
    ),
]

urlpatterns = [
    path("api/v1/", include(api)),
    path("", include("apps.health.urls")),
    # The front end's addresses; anything else is a plain 404.
    re_path(
        r"^(?:login|(?:storages|groups|instances|alerts|accounts|tokens|audit)(?:/.*)?)?/?$",
        page,
        name="page",
    ),
]

handler404 = "apps.common.api.errors.not_found"
handler500 = "apps.common.api.errors.server_error"
