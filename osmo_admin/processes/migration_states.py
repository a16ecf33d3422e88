"""Migrations whose state is changed in place where an operation adds an index, a constraint or a trigger.

Django renders a model and its neighbours again after each operation, although such an option changes nothing in its
neighbours: on an empty database two fifths of the processor time of all migrations, in 280 operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.migrations.state import ProjectState
from pgtrigger.migrations import AddTrigger


@contextmanager
def options_added_in_place() -> Iterator[None]:
    """Inside, an added index, constraint or trigger is set on the rendered model. A model that is rendered later has it
    from its state, as ever."""
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in _IN_PLACE]
    try:
        for owner, name, function in _IN_PLACE:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in usual:
            setattr(owner, name, function)


def _append_option(state: ProjectState, app_label: str, model_name: str, option_name: str, added: Any) -> None:
    options = state.models[app_label, model_name].options
    options[option_name] = [*options.get(option_name, []), added]
    if "apps" in state.__dict__:  # the property renders all models
        setattr(state.apps.get_model(app_label, model_name)._meta, option_name, list(options[option_name]))


def _add_trigger(operation: AddTrigger, app_label: str, state: ProjectState) -> None:
    _append_option(state, app_label, operation.model_name, "triggers", operation.trigger)


_IN_PLACE: list[tuple[type, str, Callable[..., None]]] = [
    (ProjectState, "_append_option", _append_option),
    (AddTrigger, "state_forwards", _add_trigger),
]
