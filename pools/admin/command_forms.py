"""Forms made from the declarations of changes (:mod:`pools.domain.changes.command`).

    form_class=form_for(DeleteSubpool, parent="team", subpool_name="a")

A form has a field for each value that the address of the page does not give, and one for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from django.forms import Field

from pools.admin import forms
from pools.admin.confirm_flow import ChangeForm, FieldGroup
from pools.domain.changes.command import ChangeCommand
from pools.domain.structured_input.config_fields import ConfigField
from pools.domain.structured_input.declared_values import DeclaredValue, fields_of


class Declared(Protocol):
    """What a declaration of a field says to people: a :class:`DeclaredValue`, or a `ConfigField` of a configuration."""

    @property
    def label(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def empty(self) -> str: ...


def input_field(about: Declared, looks: str) -> Field:
    """The field of a form for a value of one look."""
    label, help_text = about.label, about.help
    if looks == "boolean":
        return forms.checkbox_field(label, help_text=help_text)
    if looks == "time":
        return forms.time_field(label, help_text=help_text, has_choices=True)
    if looks == "long text":
        return forms.text_area_field(label, help_text=help_text, rows=2)
    text_field = partial(forms.text_field, label, help_text=help_text, unit=about.unit, empty=about.empty)
    if looks == "text":
        return text_field()
    modes = {"number": "numeric", "quota": "decimal"}  # a secret or a list needs a form of its own
    return text_field(inputmode=modes[looks])


def section_groups(
    fields: Mapping[str, ConfigField], sections: Sequence[str], more: Mapping[str, tuple[str, ...]]
) -> tuple[FieldGroup, ...]:
    """The sections of a form of a configuration, as its fields declare them; `more` are further inputs: of a
    declared section they stand at its end, and another section stands first."""
    names = {title: tuple(name for name, each in fields.items() if each.section == title) for title in sections}
    first = (FieldGroup(*each) for each in more.items() if each[0] not in names)
    return (*first, *(FieldGroup(title, found + more.get(title, ())) for title, found in names.items()))


def reason_field() -> Field:
    """The reason of a change."""
    return forms.text_field("Reason", help_text="Optional. Recorded in the audit log with your name.")


class CommandForm(ChangeForm):
    """The form of the change `kind`, whose other values are `given`."""

    def __init__(self, kind: type[ChangeCommand], given: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        self.kind, self.given = kind, given
        super().__init__(*args, **kwargs)

    def own_fields(self) -> dict[str, Field]:
        """The fields of the change, and the reason."""
        found = {name: about for name, about in fields_of(self.kind).items() if name not in self.given}
        inputs = {key: each for name, about in found.items() for key, each in self.inputs_of(name, about).items()}
        return {**inputs, "description": reason_field()}

    def inputs_of(self, name: str, about: DeclaredValue) -> dict[str, Field]:
        """The inputs of one field of the change."""
        return {name: input_field(about, about.kind.looks)}

    def values(self) -> dict[str, Any]:
        """The values of the valid form by field."""
        data = self.cleaned_data
        return {name: data[name] for name in fields_of(self.kind) if name not in self.given and name in data}

    def command(self) -> ChangeCommand:
        """The change of the valid form."""
        return self.kind(**self.given, **self.values())


def form_for(kind: type[ChangeCommand], **given: Any) -> Callable[..., CommandForm]:
    """The maker of forms for a change with these values."""
    return partial(CommandForm, kind, given)
