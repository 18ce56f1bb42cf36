"""Periodic work on alerts."""

from apps.common.schedules import Schedule

SCHEDULES = [
    Schedule(
        name="Evaluate alert rules",
        task="apps.alerts.tasks.evaluate",
        every_seconds=5,
        description="Asks every condition and brings the alerts up to date.",
    ),
    Schedule(
        name="Tell receivers of alerts",
        task="apps.alerts.tasks.deliver",
        every_seconds=5,
        description="Sends what waits for webhooks, first tries and repetitions.",
    ),
    Schedule(
        name="Forget old alerts",
        task="apps.alerts.tasks.forget",
        every_seconds=300,
        description="Deletes alerts resolved, silences over and messages sent long ago.",
    ),
]
