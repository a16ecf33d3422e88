"""Options that migrations add in place are those that Django's own way gives."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pgtrigger
import pytest
from django.db import migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from pgtrigger.migrations import AddTrigger

from osmo_admin.processes.migration_states import added_in_place

TRIGGER = pgtrigger.Protect(name="kept", operation=pgtrigger.Delete)
KEY: Any = {"primary_key": True}
OPERATIONS: list[Operation] = [
    migrations.CreateModel("Shelf", [("id", models.BigAutoField(**KEY)), ("size", models.IntegerField())]),
    migrations.CreateModel(
        "Book", [("id", models.BigAutoField(**KEY)), ("shelf", models.ForeignKey("library.Shelf", models.CASCADE))]
    ),
    migrations.AddConstraint(
        "shelf", models.CheckConstraint(condition=models.Q(size__gt=0), name="shelf_has_a_size")
    ),
    migrations.AddIndex("shelf", models.Index(fields=["size"], name="shelf_by_size")),
    AddTrigger("shelf", TRIGGER),
]  # fmt: skip
LATER: list[Operation] = [
    migrations.AddField("book", "title", models.TextField(default="")),
    migrations.AlterField("shelf", "size", models.BigIntegerField()),
]


@pytest.mark.parametrize("way", [nullcontext, added_in_place])
def test_a_rendered_model_has_what_was_added(way: Any) -> None:
    state = ProjectState()
    assert state.apps is not None, "from here on the models are rendered"
    with way():
        for operation in OPERATIONS:
            before = state
            state = before.clone()
            operation.state_forwards("library", state)
    _check(state)
    for operation in LATER:
        operation.state_forwards("library", state)
    _check(state)  # a later rendering keeps all


def test_the_neighbours_of_a_model_are_not_rendered_again() -> None:
    state = ProjectState()
    OPERATIONS[0].state_forwards("library", state)
    shelf = state.apps.get_model("library", "shelf")
    with added_in_place():
        OPERATIONS[1].state_forwards("library", state)
        book = state.apps.get_model("library", "book")
        for operation in OPERATIONS[2:]:
            operation.state_forwards("library", state)
    assert state.apps.get_model("library", "shelf") is shelf
    assert state.apps.get_model("library", "book") is book


def _check(state: ProjectState) -> None:
    book, shelf = (state.apps.get_model("library", name) for name in ("book", "shelf"))
    triggers: list[Any] = state.models["library", "shelf"].options["triggers"]
    added = (shelf._meta.constraints, shelf._meta.indexes, triggers)
    assert [[each.name for each in found] for found in added] == [["shelf_has_a_size"], ["shelf_by_size"], ["kept"]]
    assert book._meta.get_field("shelf").related_model is shelf
    assert [each.related_model for each in shelf._meta.related_objects] == [book]
