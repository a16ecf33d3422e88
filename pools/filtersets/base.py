"""The base of all FilterSets, and filters that read a query as the API contract writes it.

A list takes its conditions from the address. Values that cannot be read are reported together, each with the name of
its parameter and the code `bad_query`. An empty value is the same as a parameter that is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from pools.domain.errors import BadInput, Violation
from pools.domain.query_values import (
    BOOLEAN_RULE,
    DATETIME_RULE,
    ORDER_RULE,
    integer_rule,
    parse_boolean,
    parse_datetime,
    parse_descending,
    parse_integer,
)
from pools.domain.roles import Actor

_SHOWN = 60


def not_readable(value: str, rule: str) -> ValidationError:
    """The error for a value that breaks `rule`; the FilterSet puts the parameter's name in front."""
    return ValidationError("%(value)s: give %(rule)s.", code="bad_query", params={"value": value, "rule": rule})


class ParsedField(forms.Field):
    """A text that `parse` turns into a value; `parse` returns None for a text that breaks `rule`."""

    widget: type[forms.Widget] = forms.TextInput

    def __init__(self, *, parse: Callable[[str], Any], rule: str, **options: Any) -> None:
        self.parse, self.rule = parse, rule
        super().__init__(**options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The field itself, in the form of every request: nothing changes it."""
        return self

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        found = self.parse(str(value))
        if found is None:
            raise not_readable(str(value), self.rule)
        return found


class ParsedListField(ParsedField):
    """The values of a parameter that may be repeated, without empty ones; at most `max_values` if that is given."""

    widget = forms.SelectMultiple

    def __init__(self, *, max_values: int | None = None, **options: Any) -> None:
        self.max_values = max_values
        super().__init__(**options)

    def to_python(self, value: Any) -> list[Any]:
        faults: list[ValidationError] = []
        values: list[Any] = []
        if self.max_values is not None and len(value or ()) > self.max_values:
            raise ValidationError(f"There are {len(value)} values: give at most {self.max_values}.", code="bad_query")
        for text in value or ():
            try:
                values.append(super().to_python(text))
            except ValidationError as error:
                faults.append(error)
        if faults:
            raise ValidationError(faults)
        return [each for each in values if each is not None]


class TextFilter(django_filters.Filter):  # type: ignore[misc]  # the library has no types
    """A text, taken exactly as it is written."""

    field_class = ParsedField

    def __init__(self, field_name: str | None = None, lookup_expr: str = "exact", **options: Any) -> None:
        # The label has no use here, and the library would look it up in the model for each request.
        super().__init__(field_name, lookup_expr, label="", **{"parse": str, "rule": "a text", **options})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The copy for one request, with the same field: only the owner of its method differs."""
        mine = object.__new__(type(self))
        mine.__dict__.update(self.__dict__)  # `copy.copy` takes four times as long, for each filter of each request
        if self.method is not None:
            mine.method = self.method
        return mine


class BooleanFilter(TextFilter):
    """True or False."""

    def __init__(self, field_name: str | None = None, **options: Any) -> None:
        super().__init__(field_name, parse=parse_boolean, rule=BOOLEAN_RULE, **options)


class IntegerFilter(TextFilter):
    """A whole number from `minimum`."""

    def __init__(self, field_name: str | None = None, *, minimum: int = 0, **options: Any) -> None:
        super().__init__(
            field_name, parse=lambda text: parse_integer(text, minimum), rule=integer_rule(minimum), **options
        )


class DateTimeFilter(TextFilter):
    """A time in UTC."""

    def __init__(self, field_name: str | None = None, lookup_expr: str = "exact", **options: Any) -> None:
        super().__init__(field_name, lookup_expr, parse=parse_datetime, rule=DATETIME_RULE, **options)


class TextListFilter(TextFilter):
    """Any of several texts."""

    field_class = ParsedListField

    def __init__(self, field_name: str | None = None, lookup_expr: str = "in", **options: Any) -> None:
        super().__init__(field_name, lookup_expr, **options)


class EnumListFilter(TextListFilter):
    """Any of several members of `kind`, in any case."""

    def __init__(self, field_name: str | None = None, *, kind: type[StrEnum], **options: Any) -> None:
        members = {str(member): member for member in kind}
        in_any_case = {text.lower(): member for text, member in members.items()}
        super().__init__(
            field_name,
            parse=lambda text: in_any_case.get(text.lower()),
            rule=f"one of {', '.join(members)}",
            **options,
        )


class OrderFilter(TextFilter):
    """`ASC` or `DESC` over `fields`; descending if nothing is given."""

    def __init__(self, *fields: str, tie_breakers: tuple[str, ...] = (), **options: Any) -> None:
        self.fields, self.tie_breakers = fields, tie_breakers
        super().__init__(parse=parse_descending, rule=ORDER_RULE, **options)

    def filter(self, qs: QuerySet[Any], value: bool | None) -> QuerySet[Any]:
        sign = "" if value is False else "-"
        return qs.order_by(*(f"{sign}{field}" for field in self.fields), *self.tie_breakers)


class QueryFilterSet(django_filters.FilterSet):  # type: ignore[misc]  # as above
    """The conditions of one list, read for one caller."""

    _form_class: ClassVar[type[forms.Form]]

    def __init__(self, query: Mapping[str, Any], queryset: QuerySet[Any], *, actor: Actor) -> None:
        super().__init__(query, queryset)
        self.caller = actor

    def get_form_class(self) -> type[forms.Form]:
        """The class of the form: it is the same for each request."""
        kind = type(self)
        if "_form_class" not in vars(kind):
            kind._form_class = super().get_form_class()
        return kind._form_class

    def matching_rows(self) -> QuerySet[Any]:
        """The rows that keep every condition. Raises BadInput with each parameter that cannot be read."""
        if not self.is_valid():
            raise BadInput.of(self.violations())
        try:
            rows: QuerySet[Any] = self.qs
        except ValidationError as error:
            raise BadInput.of([Violation(str(error.code), "bad_query", str(error.message))]) from None
        return rows

    def violations(self) -> list[Violation]:
        """Each parameter that cannot be read."""
        return [
            Violation(name, "bad_query", _message(name, fault))
            for name, faults in self.form.errors.as_data().items()
            for fault in faults
        ]

    def value(self, name: str) -> Any:
        """The value of a parameter that was read."""
        return self.form.cleaned_data.get(name)


def _message(name: str, fault: ValidationError) -> str:
    if fault.params is None:
        return str(fault.message)
    return f"{name}: give {fault.params['rule']}."
