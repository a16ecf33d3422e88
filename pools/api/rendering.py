"""Answers are JSON for every client, and times are naive UTC (contract, section 0)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, overload

from rest_framework import negotiation, renderers
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder


@overload
def utc_text(time: datetime) -> str: ...
@overload
def utc_text(time: datetime | None) -> str | None: ...
def utc_text(time: datetime | None) -> str | None:
    """A time as clients parse it: UTC, no zone, six digits of the second."""
    if time is None:
        return None
    utc = time if time.tzinfo is UTC or time.tzinfo is None else time.astimezone(UTC)
    return utc.isoformat(timespec="microseconds").removesuffix("+00:00")


def fields_body(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name; a field that is a dataclass is such a body, too. Unlike
    :func:`dataclasses.asdict` it does not copy the values, which took most of the time of a long queue."""
    body: dict[str, Any] = flat_body(record)
    for name, value in body.items():
        if is_dataclass(value):
            body[name] = fields_body(value)
    return body


def flat_body(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, as they are."""
    kind: Any = type(record)
    names, values = _fields_of(kind)
    return dict(zip(names, values(record), strict=True))


@cache
def _fields_of(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of the fields of a dataclass, and the function that reads all of them."""
    names = tuple(field.name for field in fields(kind))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda record: tuple(getattr(record, name) for name in names)


class UtcJsonEncoder(JSONEncoder):
    """DRF's encoder, with the one format of times."""

    def default(self, obj: Any) -> Any:
        return utc_text(obj) if isinstance(obj, datetime) else super().default(obj)


class JSONRenderer(renderers.JSONRenderer):
    """Every answer. An empty answer is the word `null`, because clients read every answer as JSON."""

    encoder_class = UtcJsonEncoder

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return b"null" if data is None else bytes(super().render(data, *args, **kwargs))


class SingleFormatNegotiation(negotiation.BaseContentNegotiation):
    """There is one format, so nothing is negotiated: no 406, no `?format=`."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        only = next(iter(renderers))
        return only, only.media_type
