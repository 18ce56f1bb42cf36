"""The router of every REST resource."""

from rest_framework.routers import SimpleRouter


class Router(SimpleRouter):
    """Answers with and without the trailing slash, so that no POST is redirected and loses its body."""

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"
