"""Addresses below /api/v1/."""

from apps.audit.api.views import AuditEntryViewSet
from apps.common.api.routers import Router

router = Router()
router.register("audit-entries", AuditEntryViewSet, basename="audit-entry")
urlpatterns = router.urls
