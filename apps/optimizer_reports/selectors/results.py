"""What runs found, as documents and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.common.actor import Actor
from apps.optimizer_reports.models import OptimizerRun
from apps.optimizer_reports.selectors.runs import results_of, run_get, runs_get
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.sizes import sized
from kvcm_platform.optimizer.analysis.document import run_document, worth_document
from kvcm_platform.optimizer.analysis.results import Found, found_of
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec, spec_from_json
from kvcm_platform.optimizer.roi import cost_from_json

MOST_COMPARED = 8
MOST_POINTS = 5000


def run_found(run: OptimizerRun) -> tuple[AnalysisSpec, Found]:
    """What the finished jobs of a run found so far, put together."""
    return spec_from_json(run.spec), found_of(results_of(run))


def run_result(*, acting: Actor, run_id: int, points: int) -> dict[str, Any]:
    """The document of a run, of what is there so far. Raises NOT_FOUND, INVALID_ARGUMENT."""
    _check_points(points)
    run = run_get(acting=acting, run_id=run_id)
    spec, found = run_found(run)
    return {"id": run.pk, "state": run.state, **run_document(spec, found, points=points)}


def run_worth(*, acting: Actor, run_id: int, cost: dict[str, Any]) -> dict[str, Any]:
    """What the capacities of a run are worth by a cost model; nothing is replayed.

    Raises NOT_FOUND, INVALID_ARGUMENT, CONFLICT without results.
    """
    run = run_get(acting=acting, run_id=run_id)
    model = cost_from_json(cost)
    _, found = run_found(run)
    if not found.curves:
        raise DomainError(Code.CONFLICT, f"optimizer run {run_id} has no results (yet)")
    return worth_document(found, model)


def runs_compared(*, acting: Actor, run_ids: Sequence[int], points: int) -> list[dict[str, Any]]:
    """Several runs side by side, in the order asked for, without what only one alone shows.

    Raises NOT_FOUND, INVALID_ARGUMENT.
    """
    _check_points(points)
    compared = []
    for run in compared_runs(acting=acting, run_ids=run_ids):
        spec, found = run_found(run)
        document = run_document(spec, found, points=points)
        compared.append(
            {
                "id": run.pk,
                "name": run.name,
                "trace_name": run.trace_name,
                "state": run.state,
                "asked_at": run.asked_at,
                **{name: document[name] for name in ("curves", "quota", "notes")},
            }
        )
    return compared


def compared_runs(*, acting: Actor, run_ids: Sequence[int]) -> list[OptimizerRun]:
    """Raises NOT_FOUND, and INVALID_ARGUMENT for none or more than MOST_COMPARED."""
    unique = list(dict.fromkeys(run_ids))
    if not 1 <= len(unique) <= MOST_COMPARED:
        raise invalid("ids", f"between 1 and {MOST_COMPARED} runs can be compared")
    return runs_get(acting=acting, run_ids=unique)


def runs_csv(*, runs: Sequence[OptimizerRun]) -> str:
    """Every point of every curve. Raises INVALID_ARGUMENT."""
    # On use, as below: what prints loads the compiled code of what it prints.
    from kvcm_platform.optimizer.analysis.printed import run_csv

    return run_csv([_printed(run, is_labelled=len(runs) > 1) for run in runs])


def runs_png(*, runs: Sequence[OptimizerRun], is_dark: bool, width: int, height: int) -> bytes:
    """The curves over each other. Raises INVALID_ARGUMENT where there is none."""
    from kvcm_platform.optimizer.analysis.printed import run_png
    from kvcm_platform.optimizer.report import Scheme

    printed = [_printed(run, is_labelled=len(runs) > 1) for run in runs]
    title = printed[0].title if len(printed) == 1 else "Hit rate by capacity"
    scheme = Scheme.DARK if is_dark else Scheme.LIGHT
    return run_png(printed, title=title, scheme=scheme, width=width, height=height)


def run_page(*, run: OptimizerRun, tables: Sequence[Any] = (), notes: Sequence[str] = ()) -> str:
    """The report as a page that stands alone, with more `tables` (optimizer.report.Table) and `notes`.

    Raises INVALID_ARGUMENT where there is nothing to show yet.
    """
    from kvcm_platform.optimizer.analysis.printed import run_html

    return run_html(_printed(run, is_labelled=False), tables=tables, notes=notes)


def run_title(run: OptimizerRun) -> str:
    return run.name or f"Run {run.pk} of {run.trace_name}"


def _printed(run: OptimizerRun, *, is_labelled: bool) -> Any:
    from kvcm_platform.optimizer.analysis.printed import PrintedRun

    spec, found = run_found(run)
    return PrintedRun(
        title=run_title(run),
        spec=spec,
        found=found,
        facts=_facts(run, spec),
        made_at=(run.ended_at or run.asked_at).strftime("%Y-%m-%d %H:%M UTC"),
        label=(run.name or f"run {run.pk}") if is_labelled else "",
    )


def _facts(run: OptimizerRun, spec: AnalysisSpec) -> tuple[tuple[str, str], ...]:
    trace = run.trace_facts
    facts = [
        ("trace", run.trace_name),
        ("requests", f"{trace['requests']:,}"),
        ("blocks asked for", f"{trace['blocks']:,}"),
        ("distinct blocks", f"{trace['distinct_blocks']:,}"),
        ("time span", f"{trace['span_us'] / 1e6:,.0f} s"),
        ("instances", ", ".join(spec.instances) if spec.instances else f"all {len(trace['instances'])}"),
    ]
    if spec.types:
        facts.append(("types", ", ".join(name or "(none)" for name in spec.types)))
    if run.group_name:
        facts.append(("instance group", run.group_name))
    if spec.quota_bytes:
        facts.append(("quota", sized(spec.quota_bytes)))
    if run.note:
        facts.append(("note", run.note))
    facts.append(("asked by", run.asked_by))
    return tuple(facts)


def _check_points(points: int) -> None:
    if not 2 <= points <= MOST_POINTS:
        raise invalid("points", f"must be within 2..{MOST_POINTS}")
