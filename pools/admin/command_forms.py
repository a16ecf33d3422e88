"""Forms made from the declarations of changes (:mod:`pools.domain.changes.command`).

    form_class=form_for(ResizeSubpool, parent="team", subpool_name="a"), command=CommandForm.command

A form has a field for each value that the address of the page does not give, and one for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from django.forms import Field

from pools.admin import forms
from pools.admin.confirm_flow import ChangeForm, FieldGroup
from pools.domain.changes.command import ChangeCommand, fields_of
from pools.domain.structured_input.config_fields import ConfigField


class Declared(Protocol):
    """What a declaration of a field says to people: a :class:`ChangeField`, or a `ConfigField` of a configuration."""

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
    """The form of the change `kind`, whose other values are `given`. With `flavors` it has a number for each of them in
    place of a quota."""

    def __init__(
        self,
        kind: type[ChangeCommand],
        given: Mapping[str, Any],
        *args: Any,
        flavors: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        self.kind, self.given, self.flavors = kind, given, flavors
        if flavors:
            self.field_by_path = {
                **{f"{QUOTAS}.{flavor}": flavor_field(flavor) for flavor in flavors},
                **dict.fromkeys(("quota", QUOTAS), flavor_field(flavors[0])),
            }
        super().__init__(*args, **kwargs)

    def own_fields(self) -> dict[str, Field]:
        """The fields of the change, and the reason."""
        found = {name: about for name, about in fields_of(self.kind).items() if name not in self.given}
        has_quotas = found.pop(QUOTAS, None) is not None and bool(self.flavors)
        fields: dict[str, Field] = {}
        for name, about in found.items():
            if name == "quota" and has_quotas:
                fields |= {flavor_field(flavor): _flavor_input(flavor, about) for flavor in self.flavors}
            else:
                fields[name] = input_field(about, about.kind.looks)
        return {**fields, "description": reason_field()}

    def command(self) -> ChangeCommand:
        """The change of the valid form."""
        data = self.cleaned_data
        values = {name: data[name] for name in fields_of(self.kind) if name not in self.given and name in data}
        typed = {flavor: text for flavor in self.flavors if (text := data.get(flavor_field(flavor)))}
        return self.kind(**self.given, **values, **({QUOTAS: typed} if typed else {}))


QUOTAS = "quotas"


def flavor_field(flavor: str) -> str:
    """The name of the input with the quota of a flavor."""
    return f"{QUOTAS}-{flavor}"


def flavor_values(flavors: Sequence[str], quotas: Mapping[str, int]) -> dict[str, int]:
    """The quotas of a subpool as the values of these inputs."""
    return {flavor_field(flavor): quotas.get(flavor, 0) for flavor in flavors}


def _flavor_input(flavor: str, about: Declared) -> Field:
    return forms.text_field(f"{about.label}, {flavor}", help_text=about.help, unit=about.unit, inputmode="decimal")


def form_for(kind: type[ChangeCommand], flavors: Sequence[str] = (), **given: Any) -> Callable[..., CommandForm]:
    """The maker of forms for a change with these values. A pool with one flavor needs no choice."""
    return partial(CommandForm, kind, given, flavors=flavors if len(flavors) > 1 else ())
