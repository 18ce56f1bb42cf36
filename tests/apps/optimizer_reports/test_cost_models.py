"""Cost models over REST."""

from __future__ import annotations

import pytest

from apps.audit.models import AuditEntry
from apps.common.actor import Role
from apps.optimizer_reports.models import OptimizerCostModel
from apps.optimizer_reports.selectors.costs import cost_model_of_group
from apps.optimizer_reports.services.cost_models import cost_model_remove, cost_model_seed
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db
URL = "/api/v1/optimizer/cost-models/"
SETTINGS = {"model": "qwen3-8b", "gpu_hour_price": 3.5}


def add(client, name: str = "a", **members):
    return client.post(URL, {"name": name, "settings": SETTINGS, **members})


def test_life_of_cost_models(api: Api, tmp_path) -> None:
    make_storage(tmp_path)
    make_group()
    client = api()
    answer = add(client)
    assert answer.status_code == 201
    first = answer.json()
    # Whole, with the figures of the preset: they stay when presets change.
    assert first["is_default"] and first["settings"]["gpu_hour_price"] == 3.5
    assert first["settings"]["model"]["kv_bytes_per_token"] == 2 * 36 * 8 * 128 * 2
    assert add(client, "b", groups=["chat"]).json()["is_default"] is False
    assert (cost_model_of_group("chat").name, cost_model_of_group("other").name) == ("b", "a")

    changed = client.patch(f"{URL}b/", {"is_default": True, "groups": [], "version": 1}).json()
    assert (changed["is_default"], changed["groups"], changed["version"]) == (True, [], 2)
    assert not client.get(f"{URL}a/").json()["is_default"]
    assert client.patch(f"{URL}b/", {"note": "x", "version": 1}).json()["code"] == "version_conflict"
    assert client.patch(f"{URL}b/", {"is_default": False}).json()["field"] == "is_default"
    assert client.delete(f"{URL}b/").json()["code"] == "in_use"
    assert client.delete(f"{URL}a/").status_code == 204
    assert client.delete(f"{URL}b/").status_code == 204
    assert client.get(URL).json()["count"] == 0
    actions = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions)[-5:] == ["cost_model.add"] * 2 + ["cost_model.update"] + ["cost_model.remove"] * 2


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "presets"}, "name"),
        ({"settings": {}}, "settings.model"),
        ({"settings": {"model": "no-such"}}, "settings.model"),
        ({"settings": {**SETTINGS, "gpu_hour_price": -1}}, "settings.gpu_hour_price"),
        ({"settings": {**SETTINGS, "gpu_hour_price": "1"}}, "settings.gpu_hour_price"),
        ({"settings": {**SETTINGS, "tiers": []}}, "settings.tiers"),
        ({"settings": {**SETTINGS, "colour": 1}}, "settings.colour"),
        ({"groups": ["nowhere"]}, "groups"),
        ({"colour": 1}, "colour"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(api: Api, members: dict, field: str) -> None:
    answer = add(api(), **members)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    if field.startswith("settings."):
        assert answer.json()["message"].startswith(f"{field}: ")
    assert not OptimizerCostModel.objects.exists()


def test_names_are_taken_once_and_currencies_are_one(api: Api) -> None:
    client = api()
    add(client)
    assert add(client).json()["code"] == "duplicate_entity"
    other = add(client, "b", settings={**SETTINGS, "currency": "EUR"})
    assert other.json()["field"] == "settings.currency"


def test_viewers_look_and_change_nothing(api: Api) -> None:
    add(api())
    viewer = api(Role.VIEWER)
    assert viewer.get(URL).json()["count"] == 1
    assert add(viewer, "b").status_code == 403
    assert viewer.patch(f"{URL}a/", {"note": "x"}).status_code == 403
    assert viewer.delete(f"{URL}a/").status_code == 403
    # Prices are of all groups.
    assert add(api(groups=["chat"]), "b").status_code == 403


def test_presets_are_listed(api: Api) -> None:
    rows = api(Role.VIEWER).get(f"{URL}presets/?page_size=100").json()["results"]
    by_name = {row["preset"]: row for row in rows}
    assert by_name["llama-3.1-8b"]["kv_bytes_per_token"] == 131_072


def test_the_example_is_made_once() -> None:
    assert cost_model_seed()
    assert OptimizerCostModel.objects.get().is_default
    assert not cost_model_seed()
    cost_model_remove(acting=ADMIN, name="example")
    assert not cost_model_seed()
    assert not OptimizerCostModel.objects.exists()
