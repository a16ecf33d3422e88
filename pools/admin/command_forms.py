"""Forms made from the declarations of changes (:mod:`pools.domain.changes.command`).

    form_class=form_for(ResizeSubpool, parent="team", subpool_name="a"), command=CommandForm.command

A form has a field for each value that the address of the page does not give, and one for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.forms import Field

from pools.admin import forms
from pools.admin.confirm_flow import ChangeForm
from pools.domain.changes.command import ChangeCommand, fields_of


def input_field(looks: str, label: str, help_text: str) -> Field:
    """The field of a form for a value of one look."""
    if looks == "boolean":
        return forms.checkbox_field(label, help_text=help_text)
    if looks == "time":
        return forms.time_field(f"{label} (UTC)", help_text=help_text)
    if looks == "long text":
        return forms.text_area_field(label, help_text=help_text, rows=2)
    if looks == "text":
        return forms.text_field(label, help_text=help_text)
    modes = {"number": "numeric", "quota": "decimal"}  # a secret or a list needs a form of its own
    return forms.text_field(label, help_text=help_text, inputmode=modes[looks])


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
        fields = {name: input_field(about.kind.looks, about.label, about.help) for name, about in found.items()}
        return {**fields, "description": reason_field()}

    def command(self) -> ChangeCommand:
        """The change of the valid form."""
        names = [name for name in fields_of(self.kind) if name not in self.given]
        return self.kind(**self.given, **{name: self.cleaned_data[name] for name in names})


def form_for(kind: type[ChangeCommand], **given: Any) -> Callable[..., CommandForm]:
    """The maker of forms for a change with these values."""
    return partial(CommandForm, kind, given)
