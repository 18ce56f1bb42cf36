"""Reads of cost models."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.common.actor import Actor
from apps.optimizer_reports.models.cost import OptimizerCostModel, OptimizerGroupCost
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.roi.cost import CostModel, cost_from_json


def cost_model_list() -> QuerySet[OptimizerCostModel]:
    return OptimizerCostModel.objects.prefetch_related("groups").order_by("name")


def cost_model_get(*, name: str) -> OptimizerCostModel:
    """Raises NOT_FOUND."""
    row = cost_model_list().filter(name=name).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"there is no cost model {name}", field="name")
    return row


def cost_model_groups(row: OptimizerCostModel, *, acting: Actor) -> list[str]:
    """The groups that have it instead of the default, as far as `acting` may see them."""
    names = [group.group_name for group in row.groups.all()]
    return [name for name in names if acting.groups is None or name in acting.groups]


def cost_model_of_group(group_name: str) -> OptimizerCostModel | None:
    """The group's own one, else the default; None where there is neither."""
    own = OptimizerGroupCost.objects.select_related("cost_model").filter(group_name=group_name).first()
    return own.cost_model if own else OptimizerCostModel.objects.filter(is_default=True).first()


class CostModels:
    """The cost models of all groups, read at once; each is parsed once."""

    def __init__(self) -> None:
        rows = {row.pk: row for row in OptimizerCostModel.objects.all()}
        self._default = next((row for row in rows.values() if row.is_default), None)
        groups = OptimizerGroupCost.objects.values_list("group_name", "cost_model_id")
        self._of_group = {name: rows[pk] for name, pk in groups if pk in rows}
        self._parsed: dict[int, CostModel] = {}

    def of(self, group_name: str) -> tuple[OptimizerCostModel, CostModel] | None:
        """None where the group has none of its own and there is no default."""
        row = self._of_group.get(group_name, self._default)
        if row is None:
            return None
        if row.pk not in self._parsed:
            self._parsed[row.pk] = cost_from_json(row.settings)
        return row, self._parsed[row.pk]
