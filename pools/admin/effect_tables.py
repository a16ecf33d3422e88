"""The tables of a preview: the fields of the configuration that change, and the numbers of the nodes around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pools.domain.configuration.cohort_config import COHORT_FIELDS, QUOTA_FIELDS
from pools.domain.configuration.pool_fields import POOL_FIELDS
from pools.domain.numbers import TREE_NUMBERS
from pools.domain.quota.tree import AMOUNT_KEYS
from pools.domain.structured_input.config_fields import ConfigField
from pools.domain.values.amounts import NO_LIMIT

_DECLARED: Mapping[str, ConfigField] = {each.key: each for each in (*POOL_FIELDS, *COHORT_FIELDS, *QUOTA_FIELDS)}
_LABELS: Mapping[str, str] = {
    **{key: each.label.removesuffix(" in GPUs") for key, each in _DECLARED.items()},
    "pool": "Pool",
    **{key: TREE_NUMBERS[key].label for key in AMOUNT_KEYS},
}
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_GUARANTEE = "resources.gpu.guarantee"
_PLATFORM_LABELS: Mapping[str, str] = {"tflops": "TFLOPS", "vram": "memory"}


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
    if path.startswith("platforms."):
        _, name, *keys = path.split(".")
        words = ", ".join(_PLATFORM_LABELS.get(key, key.replace("_", " ")) for key in keys)
        return f"Platform {name}, {words}" if words else f"Platform {name}"
    declared = next((key for key in _DECLARED if path.startswith(f"{key}.")), "")
    rest = path.removeprefix(f"{declared}.").replace("_", " ").replace(".", ": ")
    return f"{_LABELS[declared]}, {rest}" if declared else rest.capitalize()


def changed_fields(
    changes: Iterable[Mapping[str, Any]],
    label_of: Callable[[str], str] = field_label,
    value_of: Callable[[str, Any], str] | None = None,
    *,
    is_new: bool = False,
) -> list[ChangedField]:
    """The `changes` of an effect, each with the label of its path and its values in words. Of an object that `is_new`
    only fields that say something: a field without a value was empty before, too."""
    value_of = value_of or value_text
    return [
        ChangedField(
            label_of(each["path"]),
            each["path"],
            value_of(each["path"], each["before"]),
            value_of(each["path"], each["after"]),
        )
        for each in changes
        if not (is_new and _says_nothing(each["path"], each["after"]))
    ]


def _says_nothing(path: str, value: Any) -> bool:
    if value == NO_LIMIT:
        return path != _GUARANTEE  # all others have no limit unless somebody sets one
    return value in _EMPTY or (path.startswith("platforms.") and str(value) == "0")


def changed_numbers(neighbours: Iterable[Mapping[str, Any]]) -> list[ChangedNumber]:
    """The `neighbours` of an effect, one entry for each number; a zero of a node that is new says nothing."""
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
        if values["before"] is not None or values["after"]
    ]


def value_text(path: str, value: Any) -> str:
    """A value of a configuration in words."""
    if value is None and path.startswith("nodes."):
        return "no node"
    return (_DECLARED.get(path) or _DECLARED.get(path.rpartition(".")[2]) or _UNDECLARED).value_text(value)


_UNDECLARED = ConfigField("", {}, "", "")
