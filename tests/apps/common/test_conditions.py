"""Conditions that apps declare: found without being listed, complete, with defaults in their ranges."""

from __future__ import annotations

from apps.common.conditions import Condition, declared_conditions


def declared() -> list[Condition]:
    return list(declared_conditions())


def test_conditions_of_every_app_are_found() -> None:
    names = [condition.name for condition in declared()]
    assert {"storage_down", "drain_stuck", "index_in_doubt"} <= set(names)
    assert len(names) == len(set(names))


def test_each_is_explained_and_its_defaults_are_in_range() -> None:
    for condition in declared():
        assert condition.title and condition.help.endswith(".")
        assert condition.subject_kind in {"storage", "instance_group", "instance", "platform"}
        assert condition.for_seconds >= 0 and condition.keep_firing_seconds >= 0
        for parameter in condition.parameters:
            assert parameter.minimum <= parameter.default <= parameter.maximum, parameter.name
            assert parameter.help.endswith(".") and parameter.unit
