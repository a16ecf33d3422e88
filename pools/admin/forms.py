"""Forms of the pages. A form reads text and keeps it; the rules are checked by services, whose errors are shown at the
fields that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.forms.widgets import Script
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from pools.domain.errors import DomainError, Stale, Violation
from pools.domain.structured_input import join_words
from pools.domain.values.file_text import decode_text
from pools.domain.values.query_values import parse_datetime
from pools.domain.values.scalars import whole_number

MAX_TEXT_LENGTH = 2_000
MINUTE_FORMAT = "%Y-%m-%dT%H:%M"
DATETIME_FORMATS = ("%Y-%m-%dT%H:%M:%S", MINUTE_FORMAT)
NO_TIME = "There is no such date and time. Give it as 2026-12-04 18:00, or leave the box empty."
"""The refusal of a time; it has the format, because a browser sends nothing of what is half typed."""
TOO_LONG = "The text has %(show_value)s characters, and the most is %(limit_value)s. Shorten it."
INCOMPLETE_INPUT = "incomplete"  # sent with a form that lost its secret or its file during a login


def unix_lines(text: str) -> str:
    """The text with a newline at the end of each line: browsers send CRLF, and files have either."""
    return text.replace("\r\n", "\n")


class ServiceForm(forms.Form):
    """A form whose errors come from services. `paths` maps a violation's path to a field where they differ."""

    field_by_path: Mapping[str, str] = {}
    use_required_attribute = False  # the service's message is better than the browser's

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {**self.own_fields(), **self.fields}
        self.order_fields(self.names_in_order())
        for each in self.fields.values():
            each.error_messages["max_length"] = TOO_LONG
        first = next((field for field in self.visible_fields() if not field.field.disabled), None)
        if first is not None and not self.is_bound:  # after a refusal the message gets the focus (form_errors.html)
            first.field.widget.attrs["autofocus"] = True

    def own_fields(self) -> dict[str, forms.Field]:
        """Fields that stand in front of those of the class."""
        return {}

    def names_in_order(self) -> Iterable[str] | None:
        """The fields as they stand on the page; those that are not named follow."""
        return self.field_order

    def add_errors(self, refusal: DomainError) -> None:
        """Show a refusal: each violation at its field, all others above the form."""
        if not hasattr(self, "cleaned_data"):
            self.full_clean()
        is_shown = False
        for violation in refusal.details:
            field = self.field_by_path.get(violation.path) or re.split(r"[.\[]", violation.path)[0]
            field = self.field_by_path.get(field, field)
            known = field in self.fields and not self.fields[field].widget.is_hidden
            message = self._labelled_message(field, violation) if known else violation.message
            self.add_error(field if known else None, message)
            is_shown = True
        if not is_shown:
            self.add_error(None, refusal.message)

    def _labelled_message(self, field: str, violation: Violation) -> str:
        """The message with the field's label, or the line of a list, in place of the path, which no page shows."""
        path, message = violation.path, violation.message
        if not path or not message.startswith(f"{path} "):
            return message
        rest = message[len(path) :]
        of_forms = re.sub(r" from -[\d,]+ to ", " from 0 to ", rest)
        if (empty := self.fields[field].widget.attrs.get("placeholder")) and (of_forms != rest or "no limit" in rest):
            of_forms += f" An empty box means: {empty}."
        rest = of_forms
        entry = re.fullmatch(r"\w+\[(\d+)\]\.?(.*)", path)
        if entry is None:
            return f"“{self.fields[field].label}”{rest}"
        typed = str(self[field].value() or "").splitlines()
        lines = [number for number, text in enumerate(typed, start=1) if text.strip()]
        if int(entry[1]) >= len(lines):
            return message
        return f"Line {lines[int(entry[1])]}{f': {entry[2]}' if entry[2] else ''}{rest}"

    def read_upload(self, field: str, *, longest: int) -> str:
        """The text of an uploaded file, of `longest` bytes at most; empty without a file, or with an error at its field
        if it is longer or no UTF-8. A byte order mark is left out, and each line ends with a newline."""
        upload = self.files.get(field)
        if upload is None:
            return ""
        if (upload.size or 0) > longest:
            self.add_error(field, f"{upload.name} has {upload.size:,} bytes; the most is {longest:,}.")
            return ""
        try:
            return unix_lines(decode_text(upload.read()))
        except UnicodeDecodeError:
            self.add_error(field, f"{upload.name} is not valid UTF-8 text.")
            return ""
        finally:
            upload.seek(0)

    def replace_input(self, field: str, value: str) -> None:
        """Replace the input of one field on the page, where sending the same input again could not succeed."""
        data = QueryDict(mutable=True)
        data.update(self.data)
        data[field] = value
        self.data = data

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.data.get(INCOMPLETE_INPUT):  # because an empty value often has another meaning
            for name, field in self.fields.items():
                if isinstance(field, SecretField | forms.FileField) and name not in self.errors:
                    self.add_error(name, "This input was not kept during the login. Enter it again if there was any.")
        return data

    def add_stale_error(self, refusal: Stale, field: str, now: str) -> None:
        """Report a change by somebody else in the meantime, and accept the input when it is sent again."""
        self.add_errors(refusal)
        self.add_error(None, "The form shows your input. Send it again to overwrite the other change.")
        self.replace_input(field, now)

    @property
    def first_invalid_id(self) -> str:
        """The id of the first field with an error, for the link in the summary."""
        return next((bound.id_for_label for bound in self if bound.errors), "")


class _OneOfItsChoices:
    """A field with choices whose refusal says which they are, and does not repeat what was sent as Django's does."""

    choices: Any

    def known_choices(self) -> str:
        """The values that may be chosen, as one text."""
        return join_words(str(value) for value, _ in self.choices if value not in (None, ""))

    def validate(self, value: Any) -> None:
        try:
            super().validate(value)  # type: ignore[misc]  # of the field that it is mixed into
        except forms.ValidationError as fault:
            if fault.code != "invalid_choice":
                raise
            known = self.known_choices()
            message = f"This is not a known value. Known are: {known}." if known else "There is nothing to choose from."
            raise forms.ValidationError(message, code=fault.code) from None


class _ChoiceField(_OneOfItsChoices, forms.ChoiceField):
    """One of several."""


class _MultipleChoiceField(_OneOfItsChoices, forms.MultipleChoiceField):
    """Any of several."""


class SecretField(forms.CharField):
    """A secret: its input is never sent back to the page, not even when the form is refused, and no script puts it into
    an address."""

    is_secret = True

    def widget_attrs(self, widget: Any) -> dict[str, Any]:
        return {**super().widget_attrs(widget), "data-secret": True}


def script_media(*names: str) -> forms.Media:
    """Some of our own scripts, for the head of a page that works without them too."""
    tags: list[Any] = [Script(f"osmo/{name}.js", defer=True) for name in names]
    return forms.Media(js=tags)


def submitted_data(request: HttpRequest) -> QueryDict | None:
    """The data that a form was submitted with; None on a GET. A form of buttons alone is submitted empty."""
    return request.POST if request.method == "POST" else None


def _attributes(words: Mapping[str, str]) -> dict[str, str]:
    """`data_complete` as the attribute `data-complete`."""
    return {name.replace("_", "-"): value for name, value in words.items()}


def text_field(
    label: str, *, help_text: str = "", required: bool = False, unit: str = "", empty: str = "", **attrs: str
) -> forms.CharField:
    """One line of text. `unit` stands inside the input, and so does what an `empty` one means."""
    attrs = {"autocomplete": "off", **({"placeholder": empty} if empty else {}), **_attributes(attrs)}
    field = forms.CharField(
        label=label,
        help_text=help_text,
        required=required,
        max_length=MAX_TEXT_LENGTH,
        widget=forms.TextInput(attrs=attrs),
        error_messages={"max_length": TOO_LONG},
    )
    field.unit = unit  # type: ignore[attr-defined]  # read by parts/field.html
    return field


def text_area_field(label: str, *, help_text: str = "", rows: int) -> forms.CharField:
    """Several lines of text."""
    return forms.CharField(
        label=label,
        help_text=help_text,
        required=False,
        max_length=MAX_TEXT_LENGTH,
        widget=forms.Textarea(attrs={"rows": rows}),
    )


def checkbox_field(label: str, *, help_text: str = "") -> forms.BooleanField:
    """A checkbox."""
    return forms.BooleanField(label=label, help_text=help_text, required=False)


def choice_field(label: str, choices: Any = (), *, help_text: str = "", required: bool = True) -> forms.ChoiceField:
    """One of several."""
    return _ChoiceField(label=label, choices=choices, help_text=help_text, required=required)


def password_field(label: str, *, help_text: str = "", current: bool = False, required: bool = True) -> forms.CharField:
    """A password; never sent back to the page."""
    return SecretField(
        label=label,
        help_text=help_text,
        required=required,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password" if current else "new-password"}),
    )


def hidden_text_field() -> forms.CharField:
    """A hidden text."""
    return forms.CharField(widget=forms.HiddenInput, required=False, max_length=200_000)


def hidden_number_field() -> forms.IntegerField:
    """A hidden whole number."""
    return forms.IntegerField(widget=forms.HiddenInput, required=False)


class WholeNumberField(forms.IntegerField):
    """A whole number, written as in files."""

    def to_python(self, value: Any) -> int | None:
        text = value.strip() if isinstance(value, str) else value
        if isinstance(text, str) and text and whole_number(text) is None:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        found: int | None = super().to_python(text)
        return found


def code_field(label: str, *, rows: int, max_length: int | None = None, help_text: str = "") -> forms.CharField:
    """Text in which whitespace matters: files, lists of nodes."""
    attrs = {"rows": rows, "spellcheck": "false", "wrap": "off", "class": "oa-mono"}
    return forms.CharField(
        label=label,
        required=False,
        strip=False,
        max_length=max_length,
        help_text=help_text,
        widget=forms.Textarea(attrs=attrs),
    )


def render_from_templates(
    _widget: forms.Widget, template_name: str, context: dict[str, Any], renderer: Any = None
) -> SafeString:
    """Renders from the site's templates, because the forms' own renderer searches only installed apps."""
    return mark_safe(render_to_string(template_name, context))  # noqa: S308  # a template's output


class MomentInput(forms.DateTimeInput):
    """The browser's own input of a date and a time, to the minute. It shows UTC; a script makes that the zone of the
    browser, and sends UTC (`static/osmo/moments.js`). `has_choices`: with buttons for the next evenings and Fridays."""

    template_name = "osmo/parts/moment.html"
    input_type = "datetime-local"

    def __init__(self, *, has_choices: bool = False) -> None:
        super().__init__(attrs={"data-moment": True}, format=MINUTE_FORMAT)
        self.has_choices = has_choices

    def format_value(self, value: Any) -> str | None:
        """The minute in UTC, also of a text that a script has sent."""
        found = parse_datetime(value) if isinstance(value, str) and value else value
        if isinstance(found, datetime) and found.tzinfo is not None:
            found = found.astimezone(UTC)
        return f"{found.year:04}{found:-%m-%dT%H:%M}" if isinstance(found, datetime) else value

    def get_context(self, *args: Any) -> dict[str, Any]:
        return {**super().get_context(*args), "has_choices": self.has_choices}

    _render = render_from_templates


class _MomentField(forms.DateTimeField):
    """A time that there is in UTC, too."""

    def to_python(self, value: Any) -> datetime | None:
        found: datetime | None = super().to_python(value)
        try:
            return found and found.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError(NO_TIME, code="invalid") from None


def time_field(label: str, *, help_text: str = "", has_choices: bool = False) -> forms.DateTimeField:
    """An optional date and time, in UTC where nothing else is said."""
    field = _MomentField(
        label=label,
        help_text=help_text,
        required=False,
        widget=MomentInput(has_choices=has_choices),
        input_formats=DATETIME_FORMATS,
        error_messages={"invalid": NO_TIME},
    )
    field.unit = "UTC"  # type: ignore[attr-defined]  # read by parts/field.html
    return field


class CheckboxList(forms.CheckboxSelectMultiple):
    """Checkboxes in a list that scrolls when it is long."""

    template_name = "osmo/parts/checkbox_list.html"

    _render = render_from_templates


def multiple_choice_field(label: str, *, help_text: str = "") -> forms.MultipleChoiceField:
    """Any of several."""
    return _MultipleChoiceField(label=label, help_text=help_text, required=False, widget=CheckboxList())
