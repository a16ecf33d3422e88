"""A short text that is the same for the same facts: in each process, and at each time of day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.gang import GangTree
from scheduling.history.forecast.futures import Present

_OF_MESSAGES = frozenset({"bars", "topology", "units"})
"""Fields that decide no start: reasons read them."""


def facts_key(present: Present) -> str:
    """The key of all that a forecast follows from but the clock, and the past that running work and arrivals left."""
    facts, shared = _without_clock(present.facts), dict[int, str]()
    text = _text((facts, present.gangs, present.held, present.returns), shared)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _without_clock(facts: ClusterFacts) -> ClusterFacts:
    return facts if facts.policy is None else replace(facts, policy=replace(facts.policy, now=0))


def _text(value: Any, shared: dict[int, str]) -> str:
    """`shared`: the text of sets, of which many tasks have the same object; a set has another order in each process."""
    if isinstance(value, set | frozenset):
        known = shared.get(id(value))
        if known is None:
            known = shared[id(value)] = "{" + ",".join(sorted(_text(each, shared) for each in value)) + "}"
        return known
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{key!r}:{_text(each, shared)}" for key, each in value.items())) + "}"
    if isinstance(value, tuple | list):
        return "(" + ",".join(_text(each, shared) for each in value) + ")"
    if is_dataclass(value):
        named = (field.name for field in fields(value) if field.name not in _OF_MESSAGES)
        return "(" + ",".join(_text(getattr(value, name), shared) for name in named) + ")"
    if isinstance(value, GangTree):
        return _text((value.names, value.parents, value.thresholds), shared)
    if value is None or isinstance(value, str | int | float | Decimal | Fraction):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no text that is the same in each process")
