"""Addresses below /api/v1/."""

from django.urls import re_path

from apps.common.api.routers import Router
from apps.storages.api.health import IncidentViewSet
from apps.storages.api.orphans import OrphanViewSet
from apps.storages.api.types import StorageTypeViewSet
from apps.storages.api.views import StorageViewSet

router = Router()
router.register("storages", StorageViewSet, basename="storage")
router.register("health/incidents", IncidentViewSet, basename="incident")
router.register("storage-types", StorageTypeViewSet, basename="storage-type")
_ORPHANS = "storages/(?P<name>[^/]+)/orphans"
urlpatterns = [
    re_path(f"^{_ORPHANS}/?$", OrphanViewSet.as_view({"get": "list", "post": "create"})),
    re_path(f"^{_ORPHANS}/(?P<pk>[0-9]{{1,18}})/?$", OrphanViewSet.as_view({"get": "retrieve"})),
    re_path(f"^{_ORPHANS}/(?P<pk>[0-9]{{1,18}})/cancel/?$", OrphanViewSet.as_view({"post": "cancel"})),
    re_path(f"^{_ORPHANS}/(?P<pk>[0-9]{{1,18}})/samples/?$", OrphanViewSet.as_view({"get": "samples"})),
    *router.urls,
]
