"""Times of a cron expression. Pure: no clock, no scheduler.

Five members: minute, hour, day of the month, month, day of the week, each `*`, numbers, ranges, steps and
lists of these; months and days of the week also by their English names. Day of the month and day of the week
cannot both be limited: some crons then want both and some either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from kvcm_platform.core.errors import invalid

_NAMES = ("minute", "hour", "day of the month", "month", "day of the week")
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_WORDS = (
    *((),) * 3,
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
)
_PART = re.compile(r"(?:(\*)|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", re.ASCII)
_DAYS_AHEAD = 8 * 366 + 1
"""The 29th of February is up to eight years away."""
LEAST_GAP_SECONDS = 300
_GAPS_LOOKED_AT = 300
MAX_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Cron:
    """What an expression allows. `weekdays`: 0 is Sunday. `fields` is its text by member, without names.

    Times are those of the clock on the wall of `zone`. One that a change of the clock leaves out comes as
    much later as the clock was put forward, one that it brings twice comes once.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    fields: tuple[str, ...]
    zone: ZoneInfo

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times later than `moment`, in order, as UTC; ends where none is within eight years."""
        first = moment.astimezone(self.zone).date() - timedelta(days=1)
        for ahead in range(_DAYS_AHEAD):
            yield from (at for at in self._of_day(first + timedelta(days=ahead)) if at > moment)

    def last(self, moment: datetime, *, not_before: datetime) -> datetime | None:
        """The latest time up to `moment`, of those after `not_before`; None = there is none."""
        day = moment.astimezone(self.zone).date() + timedelta(days=1)
        first = not_before.astimezone(self.zone).date() - timedelta(days=1)
        while day >= max(first, moment.date() - timedelta(days=_DAYS_AHEAD)):
            found = [at for at in self._of_day(day) if not_before < at <= moment]
            if found:
                return found[-1]
            day -= timedelta(days=1)
        return None

    def _of_day(self, day: date) -> list[datetime]:
        if day.month not in self.months or day.day not in self.days:
            return []
        if day.isoweekday() % 7 not in self.weekdays:
            return []
        walls = (time(hour, minute) for hour in self.hours for minute in self.minutes)
        return sorted({datetime.combine(day, wall, self.zone).astimezone(UTC) for wall in walls})


def parse_cron(text: str, zone: str = "UTC", *, field: str = "cron") -> Cron:
    """Raises INVALID_ARGUMENT: for what is no expression, never comes or comes too often, and for no zone."""
    members = text.lower().split() if len(text) <= MAX_LENGTH else []
    if len(members) != len(_NAMES):
        raise invalid(field, "must have five members: minute, hour, day of the month, month, day of the week")
    plain = tuple(_without_names(member, place) for place, member in enumerate(members))
    sets = [_expanded(member, place, field) for place, member in enumerate(plain)]
    weekdays = frozenset(day % 7 for day in sets[4])
    if len(sets[2]) < 31 and len(weekdays) < 7:
        raise invalid(field, "limits day of the month and day of the week: make two schedules of it")
    if "7" in re.findall(r"\d+", plain[4]):
        plain = (*plain[:4], ",".join(str(day) for day in sorted(weekdays)))
    cron = Cron(sets[0], sets[1], sets[2], sets[3], weekdays, plain, _zone(zone))
    _check_times(cron, field)
    return cron


def _without_names(member: str, place: int) -> str:
    first = _RANGES[place][0]
    for number, word in enumerate(_WORDS[place]):
        member = re.sub(rf"\b{word}\b", str(first + number), member)
    return member


def _expanded(member: str, place: int, field: str) -> frozenset[int]:
    low, high = _RANGES[place]
    found: set[int] = set()
    for part in member.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise invalid(field, f"{part!r} is no {_NAMES[place]}")
        star, begin, end, step = match.groups()
        first = low if star else int(begin)
        # A step behind a single number would count on to the end in some crons and not in others.
        last = (high if place != 4 else 6) if star else int(end or begin)
        if not low <= first <= last <= high or step == "0" or (step and not star and not end):
            raise invalid(field, f"{part!r} is no {_NAMES[place]}; those are {low} to {high}")
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise invalid("timezone", f"there is no time zone {name!r}") from error


def _check_times(cron: Cron, field: str) -> None:
    # Any year will do: what never comes is a 30th of February.
    times = list(islice(cron.after(datetime(2027, 1, 1, tzinfo=UTC)), _GAPS_LOOKED_AT))
    if not times:
        raise invalid(field, "never comes")
    if any((later - earlier).total_seconds() < LEAST_GAP_SECONDS for earlier, later in pairwise(times)):
        raise invalid(field, f"comes more often than every {LEAST_GAP_SECONDS // 60} minutes")
