"""Addresses below /api/v1/."""

from django.urls import path

from .views import LiveTicketView, OverviewView

urlpatterns = [
    path("overview", OverviewView.as_view(), name="overview"),
    path("live/ticket", LiveTicketView.as_view(), name="live-ticket"),
]
