"""Reads of schedules and their reports."""

from __future__ import annotations

import gzip
from datetime import datetime
from itertools import islice

# It comes with django-celery-beat, which has it for its own pages.
from cron_descriptor import Options, get_description
from django.db.models import OuterRef, QuerySet, Subquery

from apps.common.actor import Actor
from apps.optimizer_reports.choices import OPEN_REPORTS, ReportState
from apps.optimizer_reports.models.schedule import Report, ReportDocument, ReportSchedule
from kvcm_platform.core.cron import Cron, parse_cron
from kvcm_platform.core.errors import Code, DomainError

NEXT_SHOWN = 5
_WORDS = Options()
_WORDS.use_24hour_time_format = True


def schedule_list(*, acting: Actor) -> QuerySet[ReportSchedule]:
    """The schedules that `acting` may see, each with `last_report_id`."""
    newest = Report.objects.filter(schedule=OuterRef("pk")).order_by("-id").values("pk")[:1]
    rows = ReportSchedule.objects.annotate(last_report_id=Subquery(newest)).order_by("name")
    return rows if acting.groups is None else rows.filter(group_name__in=acting.groups)


def schedule_get(*, acting: Actor, name: str) -> ReportSchedule:
    """Raises NOT_FOUND, also for a schedule outside the actor's scope."""
    row = schedule_list(acting=acting).filter(name=name).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"schedule {name} does not exist", field="name")
    return row


def report_list(*, acting: Actor) -> QuerySet[Report]:
    """The reports that `acting` may see, newest first, with their schedule and messages."""
    rows = Report.objects.select_related("schedule").prefetch_related("mails").order_by("-id")
    return rows if acting.groups is None else rows.filter(schedule__group_name__in=acting.groups)


def report_get(*, acting: Actor, report_id: int) -> Report:
    """Raises NOT_FOUND, also for a report outside the actor's scope."""
    row = report_list(acting=acting).filter(pk=report_id).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"report {report_id} does not exist", field="id")
    return row


def reports_by_id(ids: list[int]) -> dict[int, Report]:
    return Report.objects.select_related("schedule").prefetch_related("mails").in_bulk(ids)


def report_html_of(report: Report) -> str:
    """The standalone page. Raises NOT_FOUND while there is none."""
    document = ReportDocument.objects.filter(report=report).first()
    if document is None:
        raise DomainError(Code.NOT_FOUND, f"report {report.pk} has no page: it is {report.state}", field="id")
    return gzip.decompress(bytes(document.html)).decode()


def reports_open() -> list[int]:
    return list(Report.objects.filter(state__in=OPEN_REPORTS).order_by("id").values_list("pk", flat=True))


def report_before(report: Report) -> Report | None:
    """The newest finished report of the same schedule that is older."""
    rows = Report.objects.filter(schedule=report.schedule_id, state=ReportState.DONE.value, pk__lt=report.pk)
    return rows.order_by("-id").first()


def next_times(schedule: ReportSchedule, now: datetime) -> list[datetime]:
    """The next times that it is due, as UTC; none while it is paused."""
    if schedule.is_paused:
        return []
    return list(islice(parse_cron(schedule.cron, schedule.timezone).after(now), NEXT_SHOWN))


def cron_words(schedule: ReportSchedule) -> str:
    """ "At 06:00, Monday through Friday (Europe/Berlin)"."""
    return expression_words(parse_cron(schedule.cron, schedule.timezone))


def expression_words(cron: Cron) -> str:
    return f"{get_description(' '.join(cron.fields), _WORDS)} ({cron.zone.key})"


def newest_reports() -> list[Report]:
    """Of each schedule the newest report that is over and was not skipped or cancelled."""
    over = [ReportState.DONE.value, ReportState.FAILED.value]
    newest = Report.objects.filter(schedule=OuterRef("pk"), state__in=over).order_by("-id").values("pk")[:1]
    ids = ReportSchedule.objects.annotate(newest=Subquery(newest)).values_list("newest", flat=True)
    rows = Report.objects.filter(pk__in=[pk for pk in ids if pk]).select_related("schedule")
    return list(rows.order_by("schedule__name"))
