"""Times of cron expressions, against a clock that is asked minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.cron import parse_cron
from kvcm_platform.core.errors import DomainError

BEGIN = datetime(2027, 2, 26, 22, 50, tzinfo=UTC)
MEANINGS = {
    "*/15 8-9 * * *": lambda at: at.minute in (0, 15, 30, 45) and at.hour in (8, 9),
    "30 6 * * mon-fri": lambda at: (at.hour, at.minute) == (6, 30) and at.isoweekday() <= 5,
    "0 0 1,15 * *": lambda at: (at.hour, at.minute) == (0, 0) and at.day in (1, 15),
    "5 4 * mar,6 7": lambda at: (
        (at.hour, at.minute) == (4, 5) and at.month in (3, 6) and at.isoweekday() == 7
    ),
    "10-50/20 */6 * * 0": lambda at: (
        at.minute in (10, 30, 50) and at.hour in (0, 6, 12, 18) and at.isoweekday() == 7
    ),
}


@pytest.mark.parametrize("text", MEANINGS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_times_are_those_of_the_clock_on_the_wall(text: str, zone: str) -> None:
    minutes = (BEGIN + timedelta(minutes=n) for n in range(1, 60 * 24 * 60))
    expected = [at for at in minutes if MEANINGS[text](at.astimezone(ZoneInfo(zone)))]
    cron = parse_cron(text, zone)
    assert list(islice(cron.after(BEGIN), len(expected))) == expected
    for moment in (expected[3], expected[3] + timedelta(seconds=59)):
        assert cron.last(moment, not_before=BEGIN) == expected[3]
    assert cron.last(expected[3] - timedelta(seconds=1), not_before=BEGIN) == expected[2]
    assert cron.last(expected[3], not_before=expected[3]) is None


def test_clock_put_forward_and_back() -> None:
    """Berlin 2027: 2:00 to 3:00 on 28 March (1:00 UTC), 3:00 to 2:00 on 31 October (1:00 UTC)."""
    cron = parse_cron("30 2 * * *", "Europe/Berlin")
    spring = list(islice(cron.after(datetime(2027, 3, 27, 12, tzinfo=UTC)), 2))
    assert spring == [datetime(2027, 3, 28, 1, 30, tzinfo=UTC), datetime(2027, 3, 29, 0, 30, tzinfo=UTC)]
    autumn = list(islice(cron.after(datetime(2027, 10, 30, 12, tzinfo=UTC)), 2))
    assert autumn == [datetime(2027, 10, 31, 0, 30, tzinfo=UTC), datetime(2027, 11, 1, 1, 30, tzinfo=UTC)]


def test_leap_days_are_found_and_what_never_comes_is_refused() -> None:
    cron = parse_cron("0 0 29 2 *")
    assert next(cron.after(BEGIN)) == datetime(2028, 2, 29, tzinfo=UTC)
    assert cron.last(datetime(2027, 1, 1, tzinfo=UTC), not_before=datetime(2020, 1, 1, tzinfo=UTC)) == (
        datetime(2024, 2, 29, tzinfo=UTC)
    )
    with pytest.raises(DomainError, match="never comes"):
        parse_cron("0 0 30 2 *")


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ("", "cron", "five members"),
        ("0 0 * *", "cron", "five members"),
        ("0 0 * * * *", "cron", "five members"),
        ("0 " * 200, "cron", "five members"),
        ("60 * * * *", "cron", "no minute"),
        ("0 24 * * *", "cron", "no hour"),
        ("0 0 0 * *", "cron", "no day of the month"),
        ("0 0 * 13 *", "cron", "no month"),
        ("0 0 * * 8", "cron", "no day of the week"),
        ("0 0 * * fri-mon", "cron", "no day of the week"),
        ("0 5-3 * * *", "cron", "no hour"),
        ("0 5/3 * * *", "cron", "no hour"),
        ("*/0 * * * *", "cron", "no minute"),
        ("a * * * *", "cron", "no minute"),
        ("\u0663 6 * * *", "cron", "no minute"),
        ("0 0 1 * 1", "cron", "two schedules"),
        ("* * * * *", "cron", "every 5 minutes"),
        ("0,2 3 * * *", "cron", "every 5 minutes"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, field: str, why: str) -> None:
    with pytest.raises(DomainError, match=why) as refused:
        parse_cron(text)
    assert refused.value.field == field


def test_unknown_time_zone_is_refused() -> None:
    for zone in ("Nowhere/Land", "", "../etc/passwd"):
        with pytest.raises(DomainError, match="time zone") as refused:
            parse_cron("0 0 * * *", zone)
        assert refused.value.field == "timezone"


def test_fields_are_without_names_and_without_a_second_sunday() -> None:
    assert parse_cron("0 6 * JAN,feb Mon-Fri").fields == ("0", "6", "*", "1,2", "1-5")
    assert parse_cron("0 6 * * 5-7").fields == ("0", "6", "*", "*", "0,5,6")


EXPRESSIONS = st.tuples(
    *(
        st.sampled_from(["*", *choices])
        for choices in (
            ["0", "*/15", "5-50/9", "7,37"],
            ["*/3", "6", "9-17", "0,12", "1-23/5"],
            ["1", "*/10", "3-7", "28", "5-25/4"],
            ["2", "*/5", "1-6", "4,9"],
        )
    )
)


@given(EXPRESSIONS, st.sampled_from(["0", "1-5", "*/2", "6,7", "sun,wed", "2-6/2"]), st.booleans())
def test_beat_reads_the_fields_as_we_do(parts: tuple[str, ...], weekday: str, by_weekday: bool) -> None:
    """Its rows have the fields of an expression: what they mean to Celery is what they mean here."""
    minute, hour, day, month = parts
    minute = "0" if minute == "*" else minute
    expression = [minute, hour, *(("*", month, weekday) if by_weekday else (day, month, "*"))]
    cron = parse_cron(" ".join(expression))
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    theirs = crontab(**dict(zip(names, cron.fields, strict=True)))
    assert (theirs.minute, theirs.hour) == (cron.minutes, cron.hours)
    assert (theirs.day_of_month, theirs.month_of_year) == (cron.days, cron.months)
    assert theirs.day_of_week == cron.weekdays
