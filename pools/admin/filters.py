"""The filters of lists on pages: one FilterSet for each kind of row.

The REST API refuses values that it cannot read; a page shows its list without that filter, and says so.
"""

from __future__ import annotations

from typing import Any

import django_filters
from django import forms as django_forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from pools.admin.forms import DATETIME_FORMATS, MAX_TEXT_LENGTH, datetime_widget
from pools.domain.audit_actions import AuditAction
from pools.models import AuditEntry, Pool
from pools.selectors.pool_filters import PoolFilter, rows_in_state, rows_with_name

OBJECT_KINDS = ("pool", "workflow", "user", "token", "backend", "config")


def text_filter(
    label: str,
    field_name: str | None = None,
    lookup: str = "exact",
    *,
    placeholder: str = "",
    method: str | None = None,
) -> django_filters.CharFilter:
    """A filter by a text."""
    widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "placeholder": placeholder})
    return django_filters.CharFilter(
        field_name, lookup, label=label, method=method, max_length=MAX_TEXT_LENGTH, widget=widget
    )


def choice_filter(
    label: str, choices: Any, field_name: str | None = None, *, empty: str = "any", method: str | None = None
) -> django_filters.ChoiceFilter:
    """A filter by one of several values."""
    return django_filters.ChoiceFilter(
        field_name,
        label=label,
        choices=choices,
        empty_label=empty,
        method=method,
        widget=UnfoldAdminSelectWidget(),
        error_messages={"invalid_choice": "This is not a known value."},  # Django's own repeats what was sent
    )


def time_filter(label: str, field_name: str, lookup: str) -> django_filters.DateTimeFilter:
    """A filter by a time in UTC."""
    return django_filters.DateTimeFilter(
        field_name, lookup, label=f"{label} (UTC)", widget=datetime_widget(), input_formats=DATETIME_FORMATS
    )


class PageFilterSet(django_filters.FilterSet):  # type: ignore[misc]  # the library has no types
    """The filters of one list, read from the address of its page. `primary` names the fields that are shown at once,
    the others are in a collapsed section. Empty: all are shown at once."""

    primary: tuple[str, ...] = ()

    def __init__(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().__init__(request.GET, queryset, request=request)
        self.form.use_required_attribute = False

    @property
    def primary_fields(self) -> list[django_forms.BoundField]:
        """The fields that are shown at once."""
        return [field for field in self.form if not self.primary or field.name in self.primary]

    @property
    def other_fields(self) -> list[django_forms.BoundField]:
        """The fields in the collapsed section."""
        return [field for field in self.form if self.primary and field.name not in self.primary]

    @property
    def has_other_values(self) -> bool:
        """Whether a field in the collapsed section filters; then the section must be open."""
        return any(self.value(field.name) for field in self.other_fields)

    @property
    def is_active(self) -> bool:
        """Whether any field filters."""
        return any(self.value(name) for name in self.form.fields)

    @property
    def faults(self) -> list[str]:
        """A message for each value in the address that cannot be read, and therefore does not filter."""
        messages = []
        for name, errors in self.form.errors.items():
            field = self.form.fields[name]
            message = " ".join(str(error) for error in errors)
            if isinstance(field, django_forms.ChoiceField):
                known = ", ".join(str(value) for value, _ in field.widget.choices if value)
                message = f"this is not a known value. Known are: {known}."
            messages.append(f"The filter was not applied: {field.label}: {message}")
        return messages

    def value(self, name: str) -> Any:
        """A valid value, or None."""
        self.form.is_valid()
        return self.form.cleaned_data.get(name) or None


class PoolTreeFilterSet(PageFilterSet):
    """The filters of top-level pools; archived pools are shown only on request."""

    q = text_filter("Name", placeholder="part of the name of a pool or subpool", method="with_name")
    show = choice_filter(
        "Show",
        [
            (PoolFilter.DRAINING, "draining"),
            (PoolFilter.OVER, "over quota (preemptible)"),
            (PoolFilter.MAINTENANCE, "in maintenance"),
            (PoolFilter.OFFLINE, "offline"),
            (PoolFilter.ARCHIVED, "archived"),
        ],
        empty="all pools",
        method="in_state",
    )
    backend = text_filter("Cluster", "backend__name", placeholder="exact name")

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

    q = text_filter("Name", "username", "icontains", placeholder="part of a name")
    role = text_filter("Role", "groups__name", placeholder="exact, such as osmo-team-admin")


class AuditPageFilterSet(PageFilterSet):
    """The filters of entries of the audit log."""

    primary = ("q", "actor", "kind")

    q = text_filter("Object", placeholder="pool/team--a, workflow/hello-1, or a part of it", method="of_object")
    actor = text_filter("User", "actor", placeholder="exact name")
    kind = choice_filter("Kind", [(kind, kind) for kind in OBJECT_KINDS], empty="all kinds", method="of_kind")
    action = text_filter("Action", placeholder=f"{AuditAction.SUBPOOL_UPDATED}, or updated", method="with_action")
    pool = text_filter("Pool", placeholder="exact name, with its subpools", method="in_pool")
    since = time_filter("From", "time", "gte")
    until = time_filter("Until", "time", "lte")

    def of_object(self, rows: Any, name: str, value: str) -> Any:
        """Entries of the object of this name, or of objects whose names contain the text."""
        is_whole = "/" in value and AuditEntry.objects.filter(object=value).exists()
        return rows.filter(object=value) if is_whole else rows.filter(object__contains=value)

    def of_kind(self, rows: Any, name: str, value: str) -> Any:
        """Entries of objects of one kind."""
        return rows.filter(object__startswith=f"{value}/")

    def with_action(self, rows: Any, name: str, value: str) -> Any:
        """Entries of an action, with or without the name of its object."""
        return rows.filter(Q(action=value) | Q(action__endswith=f".{value}"))

    def in_pool(self, rows: Any, name: str, value: str) -> Any:
        """Entries of a pool and of its subpools."""
        return rows.filter(pool_id__in=Pool.objects.filter(name=value).values("pk"))
