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
from pools.admin.confirm_flow import REASON_HELP, ChangeForm
from pools.domain.changes.command import ChangeCommand, ChangeField, fields_of

_FIELDS: Mapping[str, Callable[[ChangeField], Field]] = {
    "text": lambda about: forms.text_field(about.label, help_text=about.help),
    "quota": lambda about: forms.text_field(about.label, help_text=about.help, inputmode="decimal"),
    "boolean": lambda about: forms.checkbox_field(about.label, help_text=about.help),
    "time": lambda about: forms.time_field(f"{about.label} (UTC)", help_text=about.help),
}


class CommandForm(ChangeForm):
    """The form of the change `kind`, whose other values are `given`."""

    def __init__(self, kind: type[ChangeCommand], given: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        self.kind, self.given = kind, given
        super().__init__(*args, **kwargs)

    def own_fields(self) -> dict[str, Field]:
        """The fields of the change, and the reason."""
        found = {name: about for name, about in fields_of(self.kind).items() if name not in self.given}
        reason = forms.text_field("Reason", help_text=REASON_HELP)
        return {**{name: _FIELDS[about.kind.looks](about) for name, about in found.items()}, "description": reason}

    def command(self) -> ChangeCommand:
        """The change of the valid form."""
        names = [name for name in fields_of(self.kind) if name not in self.given]
        return self.kind(**self.given, **{name: self.cleaned_data[name] for name in names})


def form_for(kind: type[ChangeCommand], **given: Any) -> Callable[..., CommandForm]:
    """The maker of forms for a change with these values."""
    return partial(CommandForm, kind, given)
