"""The history of what is held and done: by the second, the minute and the hour."""

from __future__ import annotations

from django.db import models

from apps.usage.choices import KINDS, Kind, SeriesKey
from kvcm_platform.core.points import LEVEL_NAMES, Levels


class Series(models.Model):
    """Whose history it is. Names are text: a history outlives its object for as long as its points stay.

    `levels` are those of the newest point that a rollup saw, `levels_at` its time: the answer for times
    before which nothing changed for longer than points stay.
    """

    kind = models.CharField(max_length=16, choices=KINDS)
    name = models.CharField(max_length=256, blank=True)
    group_name = models.CharField(max_length=128, blank=True)
    levels = models.JSONField(null=True)
    levels_at = models.BigIntegerField(null=True)
    growth = models.JSONField(null=True)
    """Of groups and storages: growth.Growth as of the last minute."""
    ended_at = models.BigIntegerField(null=True, db_index=True)
    """Unix seconds since when its object is gone."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name", "group_name"], name="one_series_of_a_subject")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()

    @property
    def key(self) -> SeriesKey:
        return SeriesKey(Kind(self.kind), self.name, self.group_name)


class SecondsChunk(models.Model):
    """The points of some seconds of one minute, from `at` (unix seconds) on, in the form of `points.pack`.

    One row for several points, since a row a second of a thousand busy instances would be two million.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, db_index=False)
    at = models.BigIntegerField(db_index=True)
    points = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["series", "at"], name="chunk_is_written_once")]

    def __str__(self) -> str:
        return f"{self.series_id} at {self.at}"


class Sample(models.Model):
    """A point of a minute or an hour. `at` is unix time, so that the database can put it into buckets."""

    series = models.ForeignKey(Series, on_delete=models.CASCADE, db_index=False)
    resolution = models.PositiveSmallIntegerField()
    """Seconds that it covers (choices.Resolution)."""
    at = models.BigIntegerField()

    used_bytes = models.BigIntegerField()
    peak_bytes = models.BigIntegerField()
    writing_bytes = models.BigIntegerField()
    serving_bytes = models.BigIntegerField()
    pending_bytes = models.BigIntegerField()
    reserved_bytes = models.BigIntegerField()
    blocks = models.BigIntegerField()
    limit_bytes = models.BigIntegerField(null=True)
    high_bytes = models.BigIntegerField(null=True)
    low_bytes = models.BigIntegerField(null=True)

    requests = models.BigIntegerField(default=0)
    requested_blocks = models.BigIntegerField(default=0)
    hit_blocks = models.BigIntegerField(default=0)
    requested_tokens = models.BigIntegerField(default=0)
    hit_tokens = models.BigIntegerField(default=0)
    written_blocks = models.BigIntegerField(default=0)
    written_bytes = models.BigIntegerField(default=0)
    removed_blocks = models.BigIntegerField(default=0)
    write_refused = models.BigIntegerField(default=0)
    quota_refused = models.BigIntegerField(default=0)
    failed_blocks = models.BigIntegerField(default=0)
    read_us = models.TextField(blank=True)
    write_us = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "resolution", "at"], name="one_sample_of_a_time")
        ]
        indexes = [models.Index(fields=["resolution", "at"], name="sample_by_time")]

    def __str__(self) -> str:
        return f"{self.series_id} at {self.at} of {self.resolution} s"

    @property
    def levels(self) -> Levels:
        return Levels(**{name: getattr(self, name) for name in LEVEL_NAMES})


class SamplingGap(models.Model):
    """A time in which nobody looked at what was held. Without one, no point means that nothing changed."""

    begin_at = models.BigIntegerField()
    end_at = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return f"{self.begin_at} to {self.end_at}"


class Position(models.Model):
    """How far the history is; one row, changed in the transaction of the points.

    `turn` is raised by each flush: of two processes that both believe to lead, one finds it changed.
    """

    seconds_done = models.BigIntegerField()
    """Unix seconds; every point before is written."""
    facts_id = models.CharField(max_length=64)
    """Of the newest entry of the facts that a written point counts."""
    minutes_done = models.BigIntegerField(default=0)
    hours_done = models.BigIntegerField(default=0)
    turn = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.seconds_done} ({self.facts_id})"
