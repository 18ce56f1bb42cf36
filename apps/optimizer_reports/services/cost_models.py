"""Cost models: what operators enter, which one is the default, and which groups have another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.selectors import is_step_done
from apps.common.services import step_done
from apps.instances.selectors import group_names
from apps.optimizer_reports.models.cost import OptimizerCostModel, OptimizerGroupCost
from apps.optimizer_reports.selectors.costs import cost_model_get
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.values import check_object_name, text
from kvcm_platform.core.validation.versions import require_version
from kvcm_platform.optimizer.roi.cost import CostModel, cost_from_json, cost_to_json

COST_MODELS_AT_MOST = 100
FIRST_NAME = "example"
PRESETS_NAME = "presets"
_FIRST_STEP = "optimizer cost model"
_FIRST_NOTE = (
    "Made with the platform: an 8 B model on one rented accelerator, with file storage. Enter your own model,"
    " prices and measured speed before you trust figures in money."
)


@transaction.atomic
def cost_model_add(
    *,
    acting: Actor,
    name: str,
    settings: Mapping[str, Any],
    note: str = "",
    is_default: bool = False,
    groups: Collection[str] = (),
) -> OptimizerCostModel:
    """Add a cost model. The first one becomes the default.

    Raises INVALID_ARGUMENT, DUPLICATE for a taken name, CAPACITY for too many.
    """
    acting.require_all_groups()
    if check_object_name(name) == PRESETS_NAME:
        raise invalid("name", f"{PRESETS_NAME} is the address of what models cost")
    if OptimizerCostModel.objects.filter(name=name).exists():
        raise DomainError(Code.DUPLICATE, f"cost model {name} exists", field="name")
    if OptimizerCostModel.objects.count() >= COST_MODELS_AT_MOST:
        raise DomainError(Code.CAPACITY, f"there are {COST_MODELS_AT_MOST} cost models already")
    row = OptimizerCostModel(name=name)
    is_first = not OptimizerCostModel.objects.filter(is_default=True).exists()
    _write(row, settings=settings, note=note, is_default=is_default or is_first, groups=groups)
    audit_record(
        acting=acting, action="cost_model.add", kind="cost_model", name=name, after=cost_model_state(row)
    )
    return cost_model_get(name=name)


@transaction.atomic
def cost_model_update(
    *, acting: Actor, name: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> OptimizerCostModel:
    """Change a cost model; `settings` and `groups` are replaced as a whole, what is absent stays.

    Raises NOT_FOUND, INVALID_ARGUMENT, and CONFLICT for a stale `expected_version`.
    """
    acting.require_all_groups()
    cost_model_get(name=name)
    row = OptimizerCostModel.objects.select_for_update().get(name=name)
    require_version(stored=row.version, given=expected_version)
    before = cost_model_state(row)
    if row.is_default and changes.get("is_default") is False:
        raise invalid("is_default", "make another cost model the default instead")
    row.version += 1
    _write(
        row,
        settings=changes.get("settings", row.settings),
        note=changes.get("note", row.note),
        is_default=changes.get("is_default", row.is_default),
        groups=changes.get("groups", before["groups"]),
    )
    audit_record(
        acting=acting,
        action="cost_model.update",
        kind="cost_model",
        name=name,
        before=before,
        after=cost_model_state(row),
    )
    return cost_model_get(name=name)


@transaction.atomic
def cost_model_remove(*, acting: Actor, name: str) -> None:
    """Remove a cost model; its groups have the default then.

    Raises NOT_FOUND, and IN_USE for the default while there are others.
    """
    acting.require_all_groups()
    row = cost_model_get(name=name)
    if row.is_default and OptimizerCostModel.objects.exclude(pk=row.pk).exists():
        raise DomainError(
            Code.IN_USE, f"cost model {name} is the default: make another one the default first", field="name"
        )
    before = cost_model_state(row)
    row.delete()
    audit_record(acting=acting, action="cost_model.remove", kind="cost_model", name=name, before=before)


def cost_model_seed() -> bool:
    """Make an example, once in the life of an installation, so that figures show what they will look like."""
    if is_step_done(_FIRST_STEP):
        return False
    with transaction.atomic():
        step_done(name=_FIRST_STEP)
        if OptimizerCostModel.objects.exists():
            return False
        cost_model_add(
            acting=Actor.system("optimizer"),
            name=FIRST_NAME,
            settings={"model": "llama-3.1-8b"},
            note=_FIRST_NOTE,
            is_default=True,
        )
        return True


def _write(
    row: OptimizerCostModel,
    *,
    settings: Mapping[str, Any],
    note: str,
    is_default: bool,
    groups: Collection[str],
) -> None:
    # Parsed and written out again: what is kept is whole, whatever the presets become.
    row.settings = cost_to_json(_cost(settings))
    row.note = text("note", note, is_required=False, at_most=2000)
    others = OptimizerCostModel.objects.exclude(pk=row.pk)
    other = others.first()
    if other is not None and other.settings["currency"] != row.settings["currency"]:
        raise invalid(
            "settings.currency",
            f"the other cost models are in {other.settings['currency']}, and figures are summed over groups",
        )
    _check_groups(set(groups) - set(_group_names(row)))
    if is_default:
        others.filter(is_default=True).update(is_default=False)
    row.is_default = is_default
    row.updated_at = timezone.now()
    row.save()
    OptimizerGroupCost.objects.filter(group_name__in=groups).delete()
    row.groups.all().delete()
    OptimizerGroupCost.objects.bulk_create(
        OptimizerGroupCost(group_name=name, cost_model=row) for name in sorted(set(groups))
    )


def _cost(settings: Mapping[str, Any]) -> CostModel:
    """Raises INVALID_ARGUMENT with the path of the member at fault, as REST has it."""
    try:
        return cost_from_json(settings)
    except DomainError as error:
        where = f"settings.{error.field}"
        raise DomainError(error.code, f"settings.{error.message}", field=where) from error


def _check_groups(groups: Collection[str]) -> None:
    """That they exist. Those that a cost model has already may be gone."""
    known = group_names() if groups else set()
    for name in sorted(groups):
        if name not in known:
            raise invalid("groups", f"there is no instance group {name}")


def cost_model_state(row: OptimizerCostModel) -> dict[str, Any]:
    """As the record of changes shows it."""
    return {
        "settings": row.settings,
        "note": row.note,
        "is_default": row.is_default,
        "groups": _group_names(row),
    }


def _group_names(row: OptimizerCostModel) -> list[str]:
    groups = OptimizerGroupCost.objects.filter(cost_model_id=row.pk).order_by("group_name")
    return list(groups.values_list("group_name", flat=True))
