"""The overview over REST, for polling, and the ticket that opens a socket without a cookie."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.live.access import TICKET_SECONDS, ticket_issue
from apps.live.overview import overview

from .serializers import OverviewSerializer, TicketSerializer

_MAX_AGE_SECONDS = 0.5
"""However many poll, the picture is made at most twice a second."""


class OverviewView(APIView):
    """The data of the live topic `overview`; not for accounts limited to some instance groups."""

    @extend_schema(operation_id="overview", responses=OverviewSerializer)
    def get(self, request: Request) -> Response:
        request.actor.require_all_groups()
        # The picture is made in its final form; serializing again would only cost time.
        return Response(overview().picture(max_age=_MAX_AGE_SECONDS))


class LiveTicketView(APIView):
    """A one-minute ticket for `/ws/live/?token=`."""

    # Any account: what it may subscribe is asked topic by topic.
    permission_classes = [IsAuthenticated]

    @extend_schema(operation_id="live_ticket", request=None, responses=TicketSerializer)
    def post(self, request: Request) -> Response:
        return Response({"token": ticket_issue(acting=request.actor), "expires_in_seconds": TICKET_SECONDS})
