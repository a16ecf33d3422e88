"""The filters of lists on pages: one FilterSet for each kind of row.

The REST API refuses values that it cannot read; a page shows its list without that filter, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest

from pools.admin.base import actor_of
from pools.admin.forms import MAX_TEXT_LENGTH, TOO_LONG, time_field
from pools.domain.lists import PoolQuery
from pools.domain.names import readable_name
from pools.domain.structured_input.declared_values import TEXT, DeclaredValue, fields_of
from pools.domain.values.durations import minute_text
from pools.filtersets.audit import AuditFilterSet
from pools.filtersets.base import QueryFilter, QueryFilterSet
from pools.models import AuditEntry
from pools.models.audit import IS_CONFIGURATION
from pools.representations.page_parameters import also_say, unknown_value, unread_filter
from pools.selectors.pool_filters import PoolFilter, rows_in_state, rows_with_name


def on_page(label: str, hint: str = "") -> DeclaredValue:
    """A filter that only a page has."""
    return DeclaredValue(TEXT, label, "", in_query=True, hint=hint)


@dataclass(frozen=True, slots=True)
class FilterChip:
    """A filter that is in force. `name` is its parameter in the address."""

    name: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class ListView:
    """A frequent choice of filters, as one link."""

    title: str
    address: str
    is_shown: bool


def list_views(request: HttpRequest, *choices: tuple[str, dict[str, str]]) -> list[ListView]:
    """The links to these choices of filters, each with its title."""
    shown = {key: value for key, value in request.GET.items() if value and key not in {"page", "sort", "select"}}
    return [ListView(title, f"?{urlencode(choice)}", choice == shown) for title, choice in choices]


_COMPLETED = {"user": "users", "users": "users", "actor": "users", "pool": "pools"}
"""What a filter of this name asks for."""


def _value_text(field: forms.Field, value: Any) -> str:
    if isinstance(field, forms.ChoiceField):
        return next(str(words) for known, words in field.widget.choices if str(known) == str(value))
    return minute_text(value) if isinstance(value, datetime) else readable_name(str(value))


class PageFilterSet(QueryFilterSet):
    """The filters of one list, read from the address of its page. `shown` names the filters in the order of the page,
    if the list has others, too. `search` is the text that has its box in the bar; the others are behind a button, and
    those that filter are chips."""

    shown: tuple[str, ...] = ()
    search = "q"

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().__init__(request.GET, queryset, actor=actor_of(request))
        self.form.use_required_attribute = False
        also_say(request.GET, lambda: self.faults)

    def get_form_class(self) -> type[forms.Form]:
        """As its base; texts that are names of users or pools are completed (`picker.js`)."""
        found = super().get_form_class()
        for name, kind in _COMPLETED.items():
            field = found.base_fields.get(name)
            if isinstance(field, forms.CharField):
                is_any_leaf = kind == "pools" and "subpool" in str(field.label)
                field.widget.attrs["data-complete"] = "leaves" if is_any_leaf else kind
        return found

    @classmethod
    def get_filters(cls) -> dict[str, QueryFilter]:
        found = super().get_filters()
        return {name: found[name] for name in cls.shown or found}

    @staticmethod
    def form_field(each: QueryFilter) -> forms.Field:
        about, choices = each.about, each.choices or [(text, text) for text in each.about.kind.options]
        if choices:
            return forms.ChoiceField(
                label=about.label,
                required=False,
                choices=[("", each.empty), *choices],
                error_messages={"invalid_choice": "This is not a known value."},  # Django's own repeats what was sent
            )
        if about.kind.looks == "time":
            return time_field(about.label)
        widget = forms.TextInput(attrs={"autocomplete": "off"})
        return forms.CharField(
            label=about.label, required=False, max_length=MAX_TEXT_LENGTH, widget=widget, help_text=about.hint,
            error_messages={"max_length": TOO_LONG},
        )  # fmt: skip

    @property
    def search_field(self) -> forms.BoundField:
        """The field with the box in the bar."""
        box: forms.BoundField = self.form[self.search]
        return box

    @property
    def other_fields(self) -> list[forms.BoundField]:
        """The fields behind the button."""
        return [field for field in self.form if field.name != self.search]

    @property
    def chips(self) -> list[FilterChip]:
        """The filters that are in force, except the text in the box."""
        return [
            FilterChip(field.name, str(field.label), _value_text(field.field, value))
            for field in self.other_fields
            if (value := self.value(field.name))
        ]

    @property
    def is_active(self) -> bool:
        """Whether any field filters."""
        return any(self.value(name) for name in self.form.fields)

    @property
    def faults(self) -> list[str]:
        """A message for each value in the address that cannot be read, and therefore does not filter; and for a time
        that ends before it begins."""
        messages = []
        for name, errors in self.form.errors.items():
            field = self.form.fields[name]
            known = [str(value) for value, _ in getattr(field, "choices", ()) if value]
            messages.append(unread_filter(str(field.label), unknown_value(known) if known else " ".join(errors)))
        begin, end = (self.value(name) if name in self.form.fields else None for name in ("since", "until"))
        if begin and end and begin > end:
            messages.append("Nothing can match, because From is after Until: exchange them, or leave one out.")
        return messages

    def value(self, name: str) -> Any:
        """A valid value, or None."""
        self.form.is_valid()
        return self.form.cleaned_data.get(name) or None


class PoolTreeFilterSet(PageFilterSet):
    """The filters of top-level pools; archived pools are shown only on request."""

    q = QueryFilter(method="with_name", about=on_page("Name", "part of the name of a pool or subpool"))
    show = QueryFilter(
        method="in_state",
        about=on_page("Show"),
        choices=[
            (PoolFilter.DRAINING, "draining"),
            (PoolFilter.OVER, "over quota (preemptible)"),
            (PoolFilter.MAINTENANCE, "in maintenance"),
            (PoolFilter.OFFLINE, "offline"),
            (PoolFilter.ARCHIVED, "archived"),
        ],
        empty="all pools",
    )
    backend = QueryFilter("backend__name", about=fields_of(PoolQuery)["backend"])

    def with_name(self, rows: Any, name: str, value: str) -> Any:
        """Pools whose name, or whose subpool's name, contains the text."""
        return rows_with_name(rows, value.strip().lower())

    def in_state(self, rows: Any, name: str, value: str) -> Any:
        """Pools in the state."""
        return rows_in_state(rows, PoolFilter(value))

    def filter_queryset(self, queryset: Any) -> Any:
        return super().filter_queryset(queryset.filter(archived=self.value("show") == PoolFilter.ARCHIVED))


class UserPageFilterSet(PageFilterSet):
    """The filters of users."""

    q = QueryFilter("username", "icontains", about=on_page("Name", "part of a name"))
    role = QueryFilter("groups__name", about=on_page("Role", "exact, such as osmo-team-admin"))


CONFIGURATION, WORK = "configuration", "work"


class AuditPageFilterSet(PageFilterSet, AuditFilterSet):
    """The filters of entries of the audit log."""

    shown = ("q", "show", "actor", "kind", "action", "pool", "since", "until")

    q = QueryFilter(method="of_object", about=on_page("Object", "pool/team--a, workflow/hello-1, or a part of it"))

    show = QueryFilter(
        method="of_part",
        about=on_page("Show"),
        choices=[(CONFIGURATION, "configuration, without work"), (WORK, "work only")],
        empty="everything",
    )

    def of_part(self, rows: Any, name: str, value: str) -> Any:
        """Entries of work, which fill a trail, or all others."""
        return rows.filter(IS_CONFIGURATION if value == CONFIGURATION else ~IS_CONFIGURATION)

    def of_object(self, rows: Any, name: str, value: str) -> Any:
        """Entries of the object of this name, or of objects whose names contain the text."""
        is_whole = "/" in value and AuditEntry.objects.filter(object=value).exists()
        return rows.filter(object=value) if is_whole else rows.filter(object__contains=value)
