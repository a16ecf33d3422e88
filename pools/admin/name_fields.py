"""Fields for names out of thousands: a box that completes them, and what is chosen as check boxes. Without a script the
names are typed, and a wrong one is answered with the nearest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any

from django import forms as django_forms
from django.utils.datastructures import MultiValueDict

from pools.admin import forms
from pools.domain.people.roles import Actor
from pools.domain.structured_input.faults import Faults
from pools.models import Pool

MAX_LISTED = 10
"""The most names of a list to choose from; more are typed or completed."""


class NamePicker(django_forms.TextInput):
    """The chosen names as check boxes, and a box for one more, or for several with spaces between them."""

    template_name = "osmo/parts/name_picker.html"
    _render = forms.render_from_templates

    def format_value(self, value: Any) -> Any:
        """The names as they are."""
        return list(value or ())

    def value_from_datadict(self, data: Mapping[str, Any], files: MultiValueDict[str, Any], name: str) -> list[str]:
        """Every name that is checked or typed, once."""
        texts = data.getlist(name) if hasattr(data, "getlist") else [*(data.get(name) or ())]
        return list(dict.fromkeys(word for text in texts for word in str(text).replace(",", " ").split()))

    def value_omitted_from_data(self, data: Mapping[str, Any], files: MultiValueDict[str, Any], name: str) -> bool:
        """Never: no name is an answer, too."""
        return False


class NamesField(django_forms.Field):
    """Any of many names."""

    def __init__(self, label: str, *, help_text: str = "", complete: str) -> None:
        attrs = {"data-complete": complete, "autocomplete": "off"}
        super().__init__(label=label, help_text=help_text, required=False, widget=NamePicker(attrs=attrs))


def suggest_name(word: str, names: Iterable[str]) -> str:
    """` Did you mean "x"?` if a similar name is among these, else an empty text. Of thousands, those that begin alike
    are compared."""
    return Faults().suggestion(word, sorted(names, key=lambda name: _common_length(name, word), reverse=True))


def _common_length(name: str, word: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, word, strict=False)))


def check_names(form: django_forms.Form, field: str, known: Iterable[str]) -> None:
    """Add an error for each name that is not known, with the nearest one; the error does not repeat the name."""
    allowed = list(known)
    typed: Collection[str] = form.cleaned_data.get(field) or ()
    for place, name in enumerate(typed, start=1):
        if name not in allowed:
            which = "This" if len(typed) == 1 else f"Name {place}"
            form.add_error(field, f"{which} is not a pool that you see.{suggest_name(name, allowed)}")


def visible_pools(actor: Actor) -> list[str]:
    """The names of the pools that the actor may see."""
    rows = Pool.objects.visible_to(actor).roots().filter(archived=False).order_by("name")
    return list(rows.values_list("name", flat=True))
