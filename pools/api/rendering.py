"""Answers are JSON for every client. Times that OSMO's clients read are naive UTC (design, O0); all others name their
zone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
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


@overload
def zoned_text(time: datetime) -> str: ...
@overload
def zoned_text(time: datetime | None) -> str | None: ...
def zoned_text(time: datetime | None) -> str | None:
    """A time that OSMO's clients do not read: UTC with its zone, six digits of the second."""
    return None if time is None else f"{utc_text(time)}Z"


class UtcJsonEncoder(JSONEncoder):
    """DRF's encoder. A dataclass is an object with its fields. A time that a body has not written as a text itself
    names its zone."""

    def default(self, obj: Any) -> Any:
        if is_dataclass(obj):
            return {each.name: getattr(obj, each.name) for each in fields(obj)}
        return zoned_text(obj) if isinstance(obj, datetime) else super().default(obj)


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
