"""The tables of a preview: the fields of the configuration that change, and the numbers of the nodes around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.configuration.pool_fields import POOL_FIELDS
from pools.domain.numbers import TREE_NUMBERS, WEIGHT
from pools.domain.quota.tree import AMOUNT_KEYS
from pools.domain.values.amounts import NO_LIMIT

_LABELS: Mapping[str, str] = {
    **{each.key: each.label.removesuffix(" in GPUs") for each in POOL_FIELDS if each.input or each.key == "backend"},
    "pool": "Pool",
    "parent": "Parent",
    "weight": WEIGHT.label,
    **{key: TREE_NUMBERS[key].label for key in AMOUNT_KEYS},
}
_UNLIMITED_PATHS = frozenset({"resources.gpu.guarantee", "resources.gpu.maximum"})


@dataclass(frozen=True, slots=True)
class ChangedField:
    """One field of a configuration, as texts."""

    label: str
    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangedNumber:
    """One number of a node of the quota tree; the values are as the API shows them."""

    name: str
    kind: str
    resource: str
    title: str
    before: Any
    after: Any


def field_label(path: str) -> str:
    """The label of a field of a pool or cohort."""
    if path in _LABELS:
        return _LABELS[path]
    if path.startswith("quotas."):
        resource, _, number = path.removeprefix("quotas.").rpartition(".")
        return f"{_LABELS.get(number, number)} of {resource}" if resource else f"Quota of {number}"
    return path.replace("_", " ").replace(".", ": ")


def changed_fields(
    changes: Iterable[Mapping[str, Any]], label_of: Callable[[str], str] = field_label
) -> list[ChangedField]:
    """The `changes` of an effect, each with the label of its path."""
    return [
        ChangedField(
            label_of(each["path"]),
            each["path"],
            _value_text(each["path"], each["before"]),
            _value_text(each["path"], each["after"]),
        )
        for each in changes
    ]


def changed_numbers(neighbours: Iterable[Mapping[str, Any]]) -> list[ChangedNumber]:
    """The `neighbours` of an effect, one entry for each number."""
    return [
        ChangedNumber(
            each["name"],
            each["kind"],
            f"{each['flavor']}/{each['resource']}",
            TREE_NUMBERS[number].label,
            values["before"],
            values["after"],
        )
        for each in neighbours
        for number, values in each["numbers"].items()
    ]


def _value_text(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == NO_LIMIT and path in _UNLIMITED_PATHS:
        return "unlimited"
    if value is None:
        return "no limit" if path.endswith("_limit") else "no node" if path.startswith("nodes.") else "none"
    return "empty" if value == "" else str(value)
