"""Savings by month, worked out by hand."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime

import pytest
import redis

from apps.common.actor import Actor, Role
from apps.live.overview import Overview
from apps.optimizer_reports.models import OptimizerGroupCost, SavingsMonth, SavingsPosition
from apps.optimizer_reports.selectors.savings import savings_of_month
from apps.optimizer_reports.services import savings_fold as folding
from apps.optimizer_reports.services.cost_models import cost_model_add
from apps.optimizer_reports.services.savings_fold import savings_fold
from apps.optimizer_reports.services.savings_publish import savings_publish
from apps.usage.choices import Resolution
from apps.usage.models import SamplingGap
from kvcm_platform.index import keyspace
from tests.apps.conftest import Api
from tests.apps.optimizer_reports.histories import History
from tests.factories.actors import ADMIN

pytestmark = pytest.mark.django_db
MONTH = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
HOUR = 3600
GIB = 1 << 30
COST = {
    # 1 s for 1000 tokens, and 1 s more for every 500,000 positions; 36 a GPU hour is 0.01 a second.
    "model": {
        "name": "hand",
        "kv_bytes_per_token": 100,
        "flops_per_token": 1e9,
        "flops_per_token_position": 2e6,
    },
    "effective_flops": 1e12,
    "gpu_hour_price": 36,
    "tiers": [
        {"name": "fast", "price_per_gib_month": 7.305, "capacity_bytes": 2 * GIB},
        {"name": "slow", "price_per_gib_month": 0.7305},
    ],
    "currency": "EUR",
}


@pytest.fixture
def history() -> History:
    return History()


def two_hours(history: History) -> None:
    """1 GiB from 0:00 on, 3 GiB from 0:30 on, nobody looks from 1:00 to 1:30, 3 GiB until 2:00."""
    begin = MONTH
    history.held(begin - 60, GIB)
    history.held(begin + 30 * 60, 3 * GIB)
    history.asked(begin + 60, 3, 900, 6)
    history.asked(begin + HOUR + 60, 2, 200, 4)
    history.asked(begin + 120, 1, 100, 50, instance="m2")
    for at in (begin, begin + HOUR):
        history.held(at, 3 * GIB, resolution=Resolution.HOUR)
    SamplingGap.objects.create(begin_at=begin + HOUR, end_at=begin + HOUR + 1800)


def test_month_by_hand(history: History) -> None:
    two_hours(history)
    history.done(MONTH + 2 * HOUR, MONTH + 2 * HOUR)
    assert savings_fold() == 2
    row = SavingsMonth.objects.get(group_name="chat", month=date(2027, 1, 1))
    assert (row.requests, row.requested_tokens, row.hit_tokens) == (6, 1200, 60)
    # 6 tokens of 3 prompts: 0+1 each; 4 of 2: 0+1 each; 50 of one: 0..49.
    assert row.hit_token_positions == 3 + 2 + 1225
    # 30 minutes of 1 GiB, one in which it became 3, then 29 of 3; 30 minutes unknown, 30 of 3.
    assert row.byte_seconds == pytest.approx(60 * GIB * (30 + 2 + 29 * 3 + 30 * 3))
    assert row.known_seconds == 90 * 60
    assert savings_fold() == 0
    assert SavingsPosition.objects.get().hours_done == MONTH + 2 * HOUR


def test_an_hour_is_counted_once_by_two_that_count_at_once(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one reads what the first one has written meanwhile."""
    two_hours(history)
    history.done(MONTH + HOUR, MONTH + HOUR)
    plain = folding.group_amounts

    def meanwhile(begin: int, end: int):
        amounts = plain(begin, end)
        monkeypatch.setattr(folding, "group_amounts", plain)
        assert savings_fold() == 1
        return amounts

    monkeypatch.setattr(folding, "group_amounts", meanwhile)
    assert savings_fold() == 0
    assert SavingsMonth.objects.get().hit_tokens == 56


def test_hours_whose_minutes_are_gone_are_counted_by_the_hour(history: History) -> None:
    history.held(MONTH - HOUR, GIB, resolution=Resolution.HOUR)
    history.held(MONTH, 3 * GIB, resolution=Resolution.HOUR)
    history.asked(MONTH, 1, 10, 4, resolution=Resolution.HOUR)
    SavingsPosition.objects.create(hours_done=MONTH)
    history.done(MONTH + HOUR, MONTH + HOUR)
    savings_fold()
    row = SavingsMonth.objects.get()
    assert (row.hit_tokens, row.hit_token_positions) == (4, 6)
    assert row.byte_seconds == pytest.approx(2 * GIB * HOUR)


def test_money_by_hand(history: History) -> None:
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    two_hours(history)
    # The second hour is not complete: it is counted as far as it is known.
    history.done(MONTH + 2 * HOUR - 30 * 60, MONTH + HOUR)
    savings_fold()
    found = savings_of_month(date(2027, 1, 1), acting=ADMIN)
    (group,) = found.groups
    assert group.amounts.hit_tokens == 60
    # 60 tokens take 0.06 s, 1230 positions 0.00246 s.
    assert group.saving.prefill_seconds == pytest.approx(0.06246)
    assert group.saving.saved_money == pytest.approx(0.0006246)
    # An hour of (30 + 2 + 87) / 60 GiB: they fit on the fast tier; a mean month has 730.5 hours.
    assert group.saving.storage_money == pytest.approx(119 / 60 * 7.305 / 730.5)
    assert group.known_ratio == pytest.approx(60 / 90)
    assert (group.cost_model, group.currency) == ("hand", "EUR")
    assert found.until == datetime(2027, 1, 1, 1, 30, tzinfo=UTC)


def test_the_first_hour_of_an_installation_is_shown_while_it_lasts(history: History) -> None:
    history.held(MONTH + 60, GIB)
    history.asked(MONTH + 120, 3, 900, 6)
    history.done(MONTH + 600, 0)
    assert savings_fold() == 0
    (group,) = savings_of_month(date(2027, 1, 1), acting=ADMIN).groups
    assert (group.amounts.hit_tokens, group.amounts.known_seconds) == (6, 540)
    assert group.amounts.byte_seconds == pytest.approx(540 * GIB)


def test_tiers_are_filled_in_their_order(history: History) -> None:
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    history.held(MONTH - 60, 5 * GIB)
    history.done(MONTH + HOUR, MONTH + HOUR)
    SavingsPosition.objects.create(hours_done=MONTH)
    savings_fold()
    (group,) = savings_of_month(date(2027, 1, 1), acting=ADMIN).groups
    assert group.saving.storage_money == pytest.approx((2 * 7.305 + 3 * 0.7305) / 730.5)


def test_rest_shows_months_by_group_and_in_sum(history: History, api: Api) -> None:
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    two_hours(history)
    history.asked(MONTH + 60, 1, 1000, 1000, instance="m3", group="other")
    history.done(MONTH + 2 * HOUR, MONTH + 2 * HOUR)
    savings_fold()
    client = api(Role.VIEWER)
    answer = client.get("/api/v1/optimizer/savings/?month=2027-01").json()
    assert [row["instance_group"] for row in answer["results"]] == ["chat", "other"]
    assert answer["results"][0]["hit_tokens"] == 60
    assert answer["results"][1]["mean_used_bytes"] == 0
    summary = client.get("/api/v1/optimizer/savings/summary/?month=2027-01").json()
    assert (summary["groups"], summary["hit_tokens"]) == (2, 1060)
    assert summary["net_money"] == pytest.approx(sum(row["net_money"] for row in answer["results"]))
    assert client.get("/api/v1/optimizer/savings/months/").json()["results"] == [{"month": "2027-01"}]
    table = client.get("/api/v1/optimizer/savings/csv/?month=2027-01")
    assert table["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.content.decode())))
    assert [(row["instance_group"], row["hit_tokens"]) for row in rows] == [("chat", "60"), ("other", "1000")]
    limited = api(Role.VIEWER, groups=["other"]).get("/api/v1/optimizer/savings/?month=2027-01").json()
    assert [row["instance_group"] for row in limited["results"]] == ["other"]
    assert client.get("/api/v1/optimizer/savings/?month=2026-12").json()["results"] == []


@pytest.mark.parametrize("month", ["2027-13", "2027", "27-01", "2027-1", "now"])
def test_what_is_no_month_is_refused(api: Api, month: str) -> None:
    answer = api(Role.VIEWER).get(f"/api/v1/optimizer/savings/?month={month}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert answer.json()["field"] == "month"


def test_without_cost_model_there_is_no_money(history: History, api: Api) -> None:
    two_hours(history)
    history.done(MONTH + 2 * HOUR, MONTH + 2 * HOUR)
    savings_fold()
    (row,) = api(Role.VIEWER).get("/api/v1/optimizer/savings/?month=2027-01").json()["results"]
    assert (row["hit_tokens"], row["net_money"], row["cost_model"]) == (60, None, None)


def test_overview_shows_this_month(history: History, index: redis.Redis) -> None:
    overview = Overview(index)
    assert overview.picture()["savings"] is None
    assert savings_publish(client=index) is None
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    two_hours(history)
    history.done(MONTH + 2 * HOUR, MONTH + 2 * HOUR)
    savings_fold()
    savings_publish(client=index)
    savings = overview.picture()["savings"]
    assert (savings["month"], savings["hit_tokens"], savings["currency"]) == ("2027-01", 60, "EUR")
    assert savings["until"] == "2027-01-01T02:00:00.000Z"
    assert savings["net_money"] == pytest.approx(savings["saved_money"] - savings["storage_money"])
    index.set(keyspace.OVERVIEW_SAVINGS, json.dumps([1]))
    assert overview.picture()["savings"] is None


def test_a_group_may_have_a_cost_model_of_its_own(history: History) -> None:
    cost_model_add(acting=ADMIN, name="hand", settings=COST)
    dear = cost_model_add(acting=ADMIN, name="dear", settings={**COST, "gpu_hour_price": 72})
    OptimizerGroupCost.objects.create(group_name="other", cost_model=dear)
    for group, instance in (("chat", "m1"), ("other", "m2")):
        history.asked(MONTH + 60, 1, 1000, 1000, instance=instance, group=group)
        history.held(MONTH - 60, 0, group=group)
    history.done(MONTH + HOUR, MONTH + HOUR)
    SavingsPosition.objects.create(hours_done=MONTH)
    savings_fold()
    found = savings_of_month(date(2027, 1, 1), acting=Actor("v", Role.VIEWER))
    chat, other = found.groups
    assert (chat.cost_model, other.cost_model) == ("hand", "dear")
    assert other.saving.saved_money == pytest.approx(2 * chat.saving.saved_money)
    assert found.saving.saved_money == pytest.approx(3 * chat.saving.saved_money)
