"""Addresses below /api/v1/."""

from apps.audit.api.views import AuditEntryViewSet, EventViewSet
from apps.common.api.routers import Router

router = Router()
router.register("audit-entries", AuditEntryViewSet, basename="audit-entry")
router.register("events", EventViewSet, basename="event")
urlpatterns = router.urls
