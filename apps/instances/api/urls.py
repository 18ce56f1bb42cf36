"""Addresses below /api/v1/."""

from apps.common.api.routers import Router
from apps.instances.api.views import GroupViewSet, InstanceViewSet

router = Router()
router.register("instance-groups", GroupViewSet, basename="instance-group")
router.register("instances", InstanceViewSet, basename="instance")
urlpatterns = router.urls
