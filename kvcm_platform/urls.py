"""Every URL of the `web` process."""

urlpatterns: list = []
