"""The base of all FilterSets: the declared query of a list (:mod:`pools.domain.questions`) as conditions on its rows.

A list takes its conditions from the address. Values that cannot be read are reported together, each with the name of
its parameter and the code `bad_query`. An empty value is the same as a parameter that is not given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.people.roles import Actor
from pools.domain.structured_input.declared_values import DeclaredValue, ValueKind, fields_of
from pools.selectors.list_order import read_part


class ParsedField(forms.Field):
    """A text of the query as a value of its kind."""

    widget: type[forms.Widget] = forms.TextInput

    def __init__(self, kind: ValueKind) -> None:
        self.kind = kind
        super().__init__(required=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The field itself, in the form of every request: nothing changes it."""
        return self

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        found = self.kind.parse(str(value))
        if found is None:
            raise ValidationError(f"give {self.kind.rule}.")
        return found


class ParsedListField(ParsedField):
    """The values of a parameter that may be repeated, without empty ones; at most `max_values` if that is given."""

    widget = forms.SelectMultiple

    def to_python(self, value: Any) -> list[Any]:
        faults: list[ValidationError] = []
        values: list[Any] = []
        most = self.kind.max_values
        if most is not None and len(value or ()) > most:
            message = f"There are {len(value)} values: give at most {most}."
            raise ValidationError(message, code="whole_message")
        for text in value or ():
            try:
                values.append(super().to_python(text))
            except ValidationError as error:
                faults.append(error)
        if faults:
            raise ValidationError(faults)
        return [each for each in values if each is not None]


class QueryFilter(django_filters.Filter):  # type: ignore[misc]  # the library has no types
    """A condition on `field_name`, by default the one of its own name, or by a method of the FilterSet; any of the
    values of a list. `about` is what the query declares of it; a filter that only a page has brings its own. `choices`
    are the words of a page for the values, `empty` those for no condition."""

    about: DeclaredValue

    def __init__(
        self,
        field_name: str | None = None,
        lookup_expr: str = "",
        *,
        method: str | None = None,
        about: DeclaredValue | None = None,
        choices: Sequence[tuple[str, str]] = (),
        empty: str = "any",
    ) -> None:
        self.choices, self.empty = choices, empty
        if about is not None:
            self.about = about
        # The label has no use here, and the library would look it up in the model for each request.
        super().__init__(field_name, lookup_expr, label="", method=method)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The copy for one request: only the owner of its method differs."""
        mine = copy(self)
        if self.method is not None:
            mine.method = self.method
        return mine

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        if value in ParsedField.empty_values:
            return qs
        if self.about.kind.is_list and isinstance(value, str):
            value = [value]  # a page has one input for it
        lookup = self.lookup_expr or ("in" if self.about.kind.is_list else "exact")
        return qs.filter(**{f"{self.field_name}__{lookup}": value})


class NoCondition(QueryFilter):
    """A value that the list reads itself, such as the number of rows."""

    def filter(self, qs: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return qs


class OrderFilter(QueryFilter):
    """The order over `fields`; descending if nothing is given."""

    def __init__(self, *fields: str, tie_breakers: tuple[str, ...] = ()) -> None:
        self.fields, self.tie_breakers = fields, tie_breakers
        super().__init__()

    def filter(self, qs: QuerySet[Any], value: bool | None) -> QuerySet[Any]:
        sign = "" if value is False else "-"
        return qs.order_by(*(f"{sign}{field}" for field in self.fields), *self.tie_breakers)


class QueryFilterSet(django_filters.FilterSet):  # type: ignore[misc]  # as above
    """The conditions of one list, read for one caller. `query` declares its parameters; those without a filter are no
    conditions."""

    query: ClassVar[type[Any] | None] = None
    _form_class: ClassVar[type[forms.Form]]

    def __init__(self, parameters: Mapping[str, Any], queryset: QuerySet[Any], *, actor: Actor) -> None:
        super().__init__(parameters, queryset)
        self.caller = actor
        self._defaults = {each.name: each.default for each in dataclasses.fields(self.query)} if self.query else {}

    @classmethod
    def get_filters(cls) -> dict[str, QueryFilter]:
        """The filters of the declared query in its order, then those that only a page has."""
        wanted = fields_of(cls.query) if cls.query else {}
        declared: dict[str, QueryFilter] = cls.declared_filters
        found = {name: declared.get(name) or NoCondition() for name in wanted} | declared
        for name in wanted:
            found[name].about = wanted[name]
        return found

    @staticmethod
    def form_field(each: QueryFilter) -> forms.Field:
        """The field that reads the values of a filter."""
        return (ParsedListField if each.about.kind.is_list else ParsedField)(each.about.kind)

    def get_form_class(self) -> type[forms.Form]:
        """The class of the form: it is the same for each request."""
        kind = type(self)
        if "_form_class" not in vars(kind):
            fields = {name: self.form_field(each) for name, each in self.base_filters.items()}
            kind._form_class = type(f"{kind.__name__}Form", (forms.Form,), fields)
        return kind._form_class

    def matching_rows(self) -> QuerySet[Any]:
        """The rows that keep every condition. Raises BadInput with each parameter that cannot be read."""
        if not self.is_valid():
            raise BadInput.of(self.violations())
        try:
            rows: QuerySet[Any] = self.qs
        except ValidationError as error:
            raise BadInput.of([Violation(str(error.code), Fault.BAD_QUERY, str(error.message))]) from None
        return rows

    def read_page(self) -> tuple[list[Any], bool]:
        """The rows of the requested page, and whether more follow. One query. Raises as `matching_rows`."""
        return read_part(self.matching_rows(), limit=self.value("limit"), offset=self.value("offset"))

    def violations(self) -> list[Violation]:
        """Each parameter that cannot be read."""
        return [
            Violation(
                name,
                Fault.BAD_QUERY,
                str(fault.message) if fault.code == "whole_message" else f"{name}: {fault.message}",
            )
            for name, faults in self.form.errors.as_data().items()
            for fault in faults
        ]

    def value(self, name: str) -> Any:
        """The value of a parameter that was read; its default if it was not given."""
        found = self.form.cleaned_data.get(name)
        return self._defaults.get(name) if found is None else found
