"""Sends finished reports by e-mail.

A message is claimed before it is sent: its `due_at` moves past the timeout. So two senders never have the
same one, and one that dies leaves it to be sent again; a recipient may then get it twice. What fails is
tried again later and holds up no report.
"""

from __future__ import annotations

import gzip
import random
import smtplib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.utils import timezone

from apps.optimizer_reports.choices import MailState, MailWhen, ReportState
from apps.optimizer_reports.models.schedule import Report, ReportDocument, ReportMail

log = structlog.get_logger(__name__)

ATTEMPTS_AT_MOST = 8
FIRST_RETRY_SECONDS = 30.0
LONGEST_RETRY_SECONDS = 3600.0
_A_RUN = 50
_CLAIM_MARGIN_SECONDS = 30
_FARTHEST = timedelta(seconds=2 * LONGEST_RETRY_SECONDS)
"""No message is due later than this: the clock went back, and it must not wait for the old time."""
_FILES_KEPT = 200

Send = Callable[[EmailMultiAlternatives], None]


@dataclass(slots=True)
class MailsReport:
    sent: int = 0
    postponed: int = 0
    failed: int = 0


def mails_queue(report: Report) -> int:
    """Put the messages of a report that ended on record, in its transaction; returns how many."""
    schedule = report.schedule
    is_news = report.is_changed or report.state == ReportState.FAILED
    if schedule.mails_when == MailWhen.NEVER or (schedule.mails_when == MailWhen.CHANGED and not is_news):
        return 0
    now = timezone.now()
    ReportMail.objects.bulk_create(
        [
            ReportMail(report=report, recipient=recipient, due_at=now, created_at=now)
            for recipient in schedule.recipients
        ],
        ignore_conflicts=True,
    )
    return len(schedule.recipients)


def mails_send(*, seconds: float = 30.0, send: Send | None = None) -> MailsReport:
    """Send what is due, for about `seconds` at most; safe to run beside itself and to stop anywhere."""
    deadline = time.monotonic() + seconds
    done = MailsReport()
    for pk in _due():
        if time.monotonic() > deadline:
            break
        mail = _claim(pk)
        if mail is not None:
            _send_one(mail, send or _sent, done)
    if done.sent:
        _prune_files()
    return done


def _due() -> list[int]:
    now = timezone.now()
    queued = ReportMail.objects.filter(state=MailState.QUEUED.value)
    due = queued.filter(due_at__lte=now) | queued.filter(due_at__gt=now + _FARTHEST)
    return list(due.order_by("due_at").values_list("pk", flat=True)[:_A_RUN])


def _claim(pk: int) -> ReportMail | None:
    now = timezone.now()
    with transaction.atomic():
        rows = ReportMail.objects.select_for_update(of=("self",)).select_related("report__schedule")
        mail = rows.filter(pk=pk, state=MailState.QUEUED.value).first()
        if mail is None or now < mail.due_at <= now + _FARTHEST:
            return None
        mail.due_at = now + timedelta(seconds=settings.EMAIL_TIMEOUT + _CLAIM_MARGIN_SECONDS)
        mail.save(update_fields=["due_at"])
        return mail


def _send_one(mail: ReportMail, send: Send, done: MailsReport) -> None:
    error = ""
    try:
        send(_message(mail))
    except (OSError, smtplib.SMTPException, ValueError) as problem:
        # SMTP errors may carry whole dialogues: enough of it to act on.
        error = f"{type(problem).__name__}: {problem}"[:500]
        log.warning("a report was not sent", report=mail.report_id, error=error)
    now = timezone.now()
    # Claiming it put off when it is due, for the case that this process does not come to an end.
    mail.due_at = min(mail.due_at, now)
    mail.attempts += 1
    mail.error = error
    if not error:
        mail.state, mail.ended_at = MailState.SENT.value, now
        done.sent += 1
    elif mail.attempts >= ATTEMPTS_AT_MOST:
        mail.state, mail.ended_at = MailState.FAILED.value, now
        done.failed += 1
    else:
        mail.due_at = now + timedelta(seconds=_retry_seconds(mail.attempts))
        done.postponed += 1
    # The report may have been removed meanwhile, and its messages with it.
    changed = {name: getattr(mail, name) for name in ("attempts", "error", "state", "ended_at", "due_at")}
    ReportMail.objects.filter(pk=mail.pk).update(**changed)


def _retry_seconds(attempts: int) -> float:
    seconds = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads repetitions


def _sent(message: EmailMultiAlternatives) -> None:
    message.send()


def _message(mail: ReportMail) -> EmailMultiAlternatives:
    """A few lines of text, with the report as a page that stands alone."""
    report = mail.report
    message = EmailMultiAlternatives(
        subject=_subject(report),
        body=mail_text(report),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[mail.recipient],
        headers={"Auto-Submitted": "auto-generated", "X-KVCM-Report": str(report.pk)},
    )
    document = ReportDocument.objects.filter(report=report).first()
    if document is not None:
        page = gzip.decompress(bytes(document.html)).decode()
        message.attach(f"{report.schedule.name}-{_day(report)}.html", page, "text/html")
    return message


def _subject(report: Report) -> str:
    what = {ReportState.FAILED.value: "failed"}.get(
        report.state, "changed" if report.is_changed else "report"
    )
    return f"KVCM optimizer: {report.schedule.name} {what}, {_day(report)}"


def _day(report: Report) -> str:
    at: datetime = report.due_at or report.created_at
    return f"{at:%Y-%m-%d}"


def mail_text(report: Report) -> str:
    """What recipients read without opening the page."""
    lines = [f"Report {report.pk} of schedule {report.schedule.name}."]
    if report.state == ReportState.FAILED:
        lines.append(f"It could not be made: {report.reason}")
    figures = report.figures or {}
    if figures.get("hit_rate") is not None:
        lines.append(f"Hit rate at the quota ({figures['policy']}): {figures['hit_rate']:.1%}.")
    if figures.get("unlimited_hit_rate") is not None:
        lines.append(f"Without any limit: {figures['unlimited_hit_rate']:.1%}.")
    if report.change:
        lines.append(report.change["sentence"])
    lines.append("The attached page has curves and figures." if report.state == ReportState.DONE else "")
    return "\n".join(line for line in lines if line) + "\n"


def _prune_files() -> None:
    """Where messages are files, the newest are kept."""
    if not settings.EMAIL_BACKEND.endswith("filebased.EmailBackend"):
        return
    files = sorted(Path(settings.EMAIL_FILE_PATH).glob("*.log"))
    for file in files[:-_FILES_KEPT]:
        file.unlink(missing_ok=True)
