"""Of the live topic `optimizer`: traces that come in, open runs with their jobs, the newest of both."""

from __future__ import annotations

from typing import Any

import orjson

from apps.common.actor import Actor
from apps.live.overview import Picture
from apps.optimizer_reports.presentation import job_shown, run_shown, trace_shown
from apps.optimizer_reports.selectors.runs import runs_ended, runs_open
from apps.optimizer_reports.selectors.traces import traces_newest, traces_open

TRACES_AT_MOST = 50
RUNS_AT_MOST = 50
_JOBS_SHOWN = 60


def optimizer_picture() -> Picture:
    """Raises django.db.DatabaseError."""
    traces = {trace.pk: trace for trace in (*traces_open(at_most=TRACES_AT_MOST), *traces_newest(at_most=20))}
    picture = {
        "traces": [trace_shown(traces[number]) for number in sorted(traces, reverse=True)],
        "open": [_open_run(run) for run in runs_open(at_most=RUNS_AT_MOST)],
        "ended": [run_shown(run) for run in runs_ended(at_most=20)],
    }
    return orjson.loads(orjson.dumps(picture, option=orjson.OPT_UTC_Z))


def _open_run(run: Any) -> dict[str, Any]:
    jobs = sorted(run.jobs.all(), key=lambda job: job.number)
    under_way = [job for job in jobs if job.state != "queued"]
    return {
        **run_shown(run),
        "job_count": len(jobs),
        "done_job_count": sum(job.state == "done" for job in jobs),
        "jobs": [job_shown(job) for job in under_way[-_JOBS_SHOWN:]],
    }


def optimizer_narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: what is of these alone, as its lists have it."""
    visible = owner.groups
    if visible is None:
        return picture

    def mine(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if row["groups"] and set(row["groups"]) <= visible]

    return {name: mine(rows) for name, rows in picture.items()}
