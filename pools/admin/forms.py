"""Forms of the ledger's pages. A form reads text and keeps it; rules are the services', whose refusals come back to the
fields they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.forms.widgets import Script
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from pools.domain.errors import DomainError, Stale, Violation
from pools.selectors.pool_tree import Show

LONGEST_TEXT = 2_000
INCOMPLETE = "incomplete"  # sent with a form that lost its secret or its file on the way through a login


class HouseForm(forms.Form):
    """A form whose faults come from the domain. `paths` maps a violation's path to a field where they differ."""

    paths: Mapping[str, str] = {}
    use_required_attribute = False  # the service's sentence says more than the browser's bubble

    def blame(self, refusal: DomainError) -> None:
        """Put a refusal where it belongs: each violation at its field, everything else above the form."""
        if not hasattr(self, "cleaned_data"):
            self.full_clean()
        placed = False
        for violation in refusal.details:
            field = self.paths.get(violation.path) or re.split(r"[.\[]", violation.path)[0]
            field = self.paths.get(field, field)
            known = field in self.fields and not self.fields[field].widget.is_hidden
            self.add_error(field if known else None, self._said(field, violation) if known else violation.message)
            placed = True
        if not placed:
            self.add_error(None, refusal.message)

    def _said(self, field: str, violation: Violation) -> str:
        """Its sentence with the label, or the line of a list, in place of a path that nobody here has typed."""
        path, sentence = violation.path, violation.message
        if not path or not sentence.startswith(f"{path} "):
            return sentence
        rest = sentence[len(path) :]
        entry = re.fullmatch(r"\w+\[(\d+)\]\.?(.*)", path)
        if entry is None:
            return f"“{self.fields[field].label}”{rest}"
        typed = str(self[field].value() or "").splitlines()
        lines = [number for number, text in enumerate(typed, start=1) if text.strip()]
        if int(entry[1]) >= len(lines):
            return sentence
        return f"Line {lines[int(entry[1])]}{f': {entry[2]}' if entry[2] else ''}{rest}"

    def retype(self, name: str, value: str) -> None:
        """Change what the page shows as typed, where sending the same again would be of no use."""
        data = QueryDict(mutable=True)
        data.update(self.data)
        data[name] = value
        self.data = data

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.data.get(INCOMPLETE):  # must not be taken as left empty: that often means something
            for name, field in self.fields.items():
                if isinstance(field, SecretField | forms.FileField) and name not in self.errors:
                    self.add_error(name, "This was not kept while you logged in. Give it again if there was something.")
        return given

    def outdated(self, refusal: Stale, field: str, now: str) -> None:
        """Somebody else was quicker: say so, and let the next sending count, now that it is sent knowingly."""
        self.blame(refusal)
        self.add_error(None, "What stands below is your input. Send it again to put it in place of theirs.")
        self.retype(field, now)

    @property
    def first_fault(self) -> str:
        """The id of the first field with a fault, for the link in the summary."""
        return next((bound.id_for_label for bound in self if bound.errors), "")


class SecretField(forms.CharField):
    """What is typed here goes in and never comes out again, not even to a page that was refused."""

    is_secret = True


def script(name: str) -> forms.Media:
    """One of our own scripts, for the head of a page that is of use without it too."""
    tags: list[Any] = [Script(f"osmo/{name}.js", defer=True)]
    return forms.Media(js=tags)


def sent(request: HttpRequest) -> QueryDict | None:
    """What a form was filled in with; None while it is only looked at. A form of buttons alone is sent empty."""
    return request.POST if request.method == "POST" else None


def text(label: str, *, help_text: str = "", required: bool = False, **attrs: str) -> forms.CharField:
    """One line of text, kept as it was typed."""
    return forms.CharField(
        label=label,
        help_text=help_text,
        required=required,
        max_length=LONGEST_TEXT,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", **attrs}),
    )


def area(label: str, *, help_text: str = "", rows: int = 3, required: bool = False) -> forms.CharField:
    """Several lines of text."""
    return forms.CharField(
        label=label,
        help_text=help_text,
        required=required,
        max_length=LONGEST_TEXT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": rows}),
    )


def tick(label: str, *, help_text: str = "") -> forms.BooleanField:
    """A tick box."""
    return forms.BooleanField(label=label, help_text=help_text, required=False, widget=UnfoldBooleanWidget())


def choice(label: str, choices: Any = (), *, help_text: str = "", required: bool = True) -> forms.ChoiceField:
    """One of several."""
    return forms.ChoiceField(
        label=label, choices=choices, help_text=help_text, required=required, widget=UnfoldAdminSelectWidget()
    )


def password(label: str, *, help_text: str = "", current: bool = False, required: bool = True) -> forms.CharField:
    """A password; never sent back to the page."""
    return SecretField(
        label=label,
        help_text=help_text,
        required=required,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password" if current else "new-password"}),
    )


def hidden_text(longest: int = 200_000) -> forms.CharField:
    """A text that goes to the page and comes back."""
    return forms.CharField(widget=forms.HiddenInput, required=False, max_length=longest)


def hidden_number() -> forms.IntegerField:
    """A whole number that goes to the page and comes back."""
    return forms.IntegerField(widget=forms.HiddenInput, required=False)


def code(label: str, *, rows: int, longest: int | None = None, help_text: str = "") -> forms.CharField:
    """Text in which every blank counts: files, lists of machines."""
    attrs = {"rows": rows, "spellcheck": "false", "wrap": "off"}
    field = forms.CharField(
        label=label,
        required=False,
        strip=False,
        max_length=longest,
        help_text=help_text,
        widget=UnfoldAdminTextareaWidget(attrs=attrs),
    )
    field.widget.attrs["class"] += " oa-mono"
    return field


def moment(label: str) -> forms.DateTimeField:
    """A point in time, UTC."""
    widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local", "step": "1"})
    return forms.DateTimeField(
        label=f"{label} (UTC)", required=False, widget=widget, input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"]
    )


class TickList(forms.CheckboxSelectMultiple):
    """Tick boxes in a list that scrolls when it is long."""

    template_name = "osmo/parts/ticks.html"

    def create_option(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(*args, **kwargs)
        option["attrs"]["class"] = UnfoldBooleanWidget().attrs["class"]
        return option

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        """From the site's templates; the forms' own renderer looks only into installed apps."""
        return mark_safe(render_to_string(template_name, context))  # noqa: S308  # a template's output


def several(label: str, *, help_text: str = "") -> forms.MultipleChoiceField:
    """Any of several."""
    return forms.MultipleChoiceField(label=label, help_text=help_text, required=False, widget=TickList())


class FilterForm(forms.Form):
    """Filters of a list, sent by GET. A value that makes no sense filters nothing and is shown as not chosen."""

    use_required_attribute = False
    first: tuple[str, ...] = ()  # shown at once; the others behind a fold. Empty: all are.

    @property
    def first_fields(self) -> list[forms.BoundField]:
        """The filters that are asked for most."""
        return [field for field in self if not self.first or field.name in self.first]

    @property
    def other_fields(self) -> list[forms.BoundField]:
        """The rest."""
        return [field for field in self if self.first and field.name not in self.first]

    @property
    def uses_others(self) -> bool:
        """Whether something behind the fold filters, so that it must not be hidden."""
        return any(self.value(field.name) for field in self.other_fields)

    def value(self, name: str) -> Any:
        """A cleaned value, or None."""
        self.is_valid()
        return self.cleaned_data.get(name) or None

    @property
    def is_used(self) -> bool:
        """Whether anything is filtered."""
        return any(self.value(name) for name in self.fields)


class TreeFilter(FilterForm):
    """Which pools to show."""

    q = text("Name", help_text="", placeholder="part of a pool's or slice's name")
    show = choice(
        "Show",
        [
            (Show.ALL, "all pools"),
            (Show.DRAINING, "something drains"),
            (Show.OVER, "LOW work over quota"),
            (Show.MAINTENANCE, "in maintenance"),
            (Show.OFFLINE, "offline"),
            (Show.ARCHIVED, "archived"),
        ],
        required=False,
    )

    @property
    def search(self) -> str:
        """The text to look for."""
        return str(self.value("q") or "")

    @property
    def chosen(self) -> Show:
        """Which pools; all if the address says nonsense."""
        return Show(self.value("show") or Show.ALL)
