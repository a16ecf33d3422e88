"""The tables of a preview: what changes of an object, and what a new object has."""

from __future__ import annotations

from typing import Any

from pools.admin.effect_tables import ChangedField, ChangedNumber, changed_fields, changed_numbers

NEW: list[dict[str, Any]] = [
    {"path": "cohort", "before": None, "after": "org"},
    {"path": "lending_limit", "before": None, "after": None},
    {"path": "resources.gpu.maximum", "before": None, "after": -1},
    {"path": "resources.gpu.guarantee", "before": None, "after": -1},
    {"path": "resources.gpu.weight", "before": None, "after": 1},
    {"path": "platforms.default.gpu_tflops", "before": None, "after": "0"},
    {"path": "enable_maintenance", "before": None, "after": False},
]


def test_a_new_object_has_the_fields_that_say_something() -> None:
    shown = {each.path for each in changed_fields(NEW, is_new=True)}
    assert shown == {"cohort", "resources.gpu.guarantee", "resources.gpu.weight", "enable_maintenance"}


def test_a_change_names_each_field_that_differs() -> None:
    taken_away = [{"path": "lending_limit", "before": 8, "after": None}]
    assert changed_fields(taken_away) == [ChangedField("Lending limit", "lending_limit", "8 GPUs", "no limit")]
    assert len(changed_fields(NEW)) == len(NEW)


def test_a_zero_of_a_new_node_is_left_out_and_a_zero_that_was_more_is_not() -> None:
    numbers = {
        "available": {"before": None, "after": 24},
        "borrowed": {"before": None, "after": 0},
        "lent": {"before": 8, "after": 0},
    }
    node = {"name": "labs", "kind": "cohort", "flavor": "default", "resource": "gpu", "numbers": numbers}
    assert [(each.before, each.after) for each in changed_numbers([node])] == [(None, 24), (8, 0)]
    assert isinstance(changed_numbers([node])[0], ChangedNumber)
