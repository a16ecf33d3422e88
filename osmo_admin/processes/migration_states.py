"""Migrations whose state is changed in place where an operation adds a model, an index, a constraint or a trigger.

Django renders a model and its neighbours again after each operation, although such an option changes nothing in its
neighbours, and a new model adds to them only what any class of a model adds to those that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.migrations.state import ModelState, ProjectState
from pgtrigger.migrations import AddTrigger


@contextmanager
def added_in_place() -> Iterator[None]:
    """Inside, an added index, constraint or trigger is set on the rendered model, and of an added model only its own
    class is rendered. A model that is rendered later has it from its state, as ever."""
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in _IN_PLACE]
    try:
        for owner, name, function in _IN_PLACE:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in usual:
            setattr(owner, name, function)


def _add_model(state: ProjectState, added: ModelState) -> None:
    key = added.app_label, added.name_lower
    state.models[key] = added
    if state._relations is not None:  # type: ignore[attr-defined]
        state.resolve_model_relations(key)
    if "apps" in state.__dict__:  # the property renders all models
        for model in state.apps.get_models(include_auto_created=True):
            model._meta.apps = state.apps  # where it looks for the models that name it
        state.apps.render_multiple([added])


def _append_option(state: ProjectState, app_label: str, model_name: str, option_name: str, added: Any) -> None:
    options = state.models[app_label, model_name].options
    options[option_name] = [*options.get(option_name, []), added]
    if "apps" in state.__dict__:
        setattr(state.apps.get_model(app_label, model_name)._meta, option_name, list(options[option_name]))


def _add_trigger(operation: AddTrigger, app_label: str, state: ProjectState) -> None:
    _append_option(state, app_label, operation.model_name, "triggers", operation.trigger)


_IN_PLACE: list[tuple[type, str, Callable[..., None]]] = [
    (ProjectState, "add_model", _add_model),
    (ProjectState, "_append_option", _append_option),
    (AddTrigger, "state_forwards", _add_trigger),
]
