"""HTTP and WebSocket entry of the `web` process."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvcm_platform.settings.dev")
http_application = get_asgi_application()

# The imports below need the app registry that the line above fills.
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from apps.accounts.api.senders import sender_refusal  # noqa: E402
from apps.common.bodies import BodyLimit  # noqa: E402
from apps.health.lifespan import lifespan  # noqa: E402
from apps.live.origin import LiveOriginValidator  # noqa: E402
from apps.live.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "lifespan": lifespan,
        "http": BodyLimit(http_application, sender_refusal),
        "websocket": LiveOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
