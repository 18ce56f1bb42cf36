"""Addresses below /api/v1/optimizer/."""

from apps.common.api.routers import Router

router = Router()
urlpatterns = router.urls
