"""The flavors of a backend: named kinds of hardware. A node has the first one whose labels it has, else `default`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pools.domain.errors import Fault
from pools.domain.names import is_word
from pools.domain.structured_input.config_fields import TEXT, object_schema
from pools.domain.structured_input.faults import join_words
from pools.domain.structured_input.fields import FieldReader, shorten_value
from pools.domain.values.amounts import DEFAULT_FLAVOR

MAX_FLAVORS: Final = 64
MAX_LABELS: Final = 64
MAX_NAME: Final = 63
FLAVOR_NAME_PATTERN: Final = rf"^[A-Za-z0-9]([A-Za-z0-9._-]{{0,{MAX_NAME - 2}}}[A-Za-z0-9])?$"
LABELS: Final = {"type": "object", "additionalProperties": TEXT, "maxProperties": MAX_LABELS}
FLAVOR: Final = object_schema({"name": TEXT, "node_labels": LABELS}, ("name", "node_labels"))

GPU_RESOURCE: Final = "nvidia.com/gpu"
PRODUCT_LABEL: Final = f"{GPU_RESOURCE}.product"
SHARED_GPUS: Final = "osmo.shared-gpus"
SHARED_GPUS_WHOLE: Final = "whole"
"""The value of the label :data:`SHARED_GPUS` by which each part of the shared GPUs of a node counts as one."""

_PART: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL_KEY: Final = re.compile(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_PART}")
_LABEL_VALUE: Final = re.compile(rf"({_PART})?")


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of hardware, and the labels of its nodes."""

    name: str
    node_labels: Mapping[str, str]

    def has_node(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has every label of the flavor."""
        return all(labels.get(key) == value for key, value in self.node_labels.items())

    @property
    def is_of_parts(self) -> bool:
        """Whether only nodes that share their GPUs have its labels: what it counts are parts of GPUs."""
        labels = self.node_labels
        product, replicas = labels.get(PRODUCT_LABEL, ""), labels.get(f"{GPU_RESOURCE}.replicas", "")
        return (
            labels.get(SHARED_GPUS) == SHARED_GPUS_WHOLE
            or product.endswith("-SHARED")
            or "-MIG-" in product
            or read_label_count(replicas) > 1
        )


def read_label_count(text: str | None) -> int:
    """The number in the value of a label, 0 without one."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def read_flavors(fields: FieldReader, key: str) -> tuple[Flavor, ...]:
    """The flavors of a list of the input. After a fault they are not usable."""
    rows = fields.nested_list(key)
    if len(rows) > MAX_FLAVORS:
        fields.add_fault(key, Fault.TOO_MANY, f"has {len(rows)} entries; the most is {MAX_FLAVORS}.")
        return ()
    found: dict[str, Flavor] = {}
    for row in rows:
        flavor = _read_flavor(row)
        if flavor.name and flavor.name in found:
            row.add_fault("name", Fault.DUPLICATE_NAME, "is given twice; each flavor has its own name.")
        found[flavor.name] = flavor
    return tuple(found.values())


def _read_flavor(row: FieldReader) -> Flavor:
    row.reject_unknown_keys(FLAVOR["properties"])
    name = row.read_text("name")
    if not name:
        row.add_fault("name", Fault.MISSING, "is missing.")
    elif name == DEFAULT_FLAVOR:
        row.add_fault("name", Fault.BAD_NAME, f"cannot be {DEFAULT_FLAVOR}: nodes without a flavor are called so.")
    elif len(name) > MAX_NAME or not is_word(name):
        row.add_fault("name", Fault.BAD_NAME, f"must be made of letters, digits, '-', '_' and '.', at most {MAX_NAME}.")
    labels = read_labels(row, "node_labels")
    if not row.is_given("node_labels") or row.body["node_labels"] == {}:
        row.add_fault("node_labels", Fault.MISSING, "has no label: name one that its nodes have.")
    return Flavor(name, labels)


def read_labels(fields: FieldReader, key: str) -> dict[str, str]:
    """The labels of a node, or some of them, as Kubernetes allows them."""
    nested = fields.nested(key)
    if nested is None:
        return {}
    if len(nested.body) > MAX_LABELS:
        fields.add_fault(key, Fault.TOO_MANY, f"has {len(nested.body)} labels; the most is {MAX_LABELS}.")
        return {}
    found = {}
    for name in nested.body:
        shown = shorten_value(name)
        if not _LABEL_KEY.fullmatch(name):
            nested.add_fault(shown, Fault.BAD_NAME, "is not the key of a label, such as nvidia.com/gpu.product.")
            continue
        text = nested.field(name).text()
        if text is not None and not _LABEL_VALUE.fullmatch(text):
            nested.add_fault(
                shown, Fault.BAD_VALUE, "must be the value of a label: letters, digits, '-', '_' and '.', at most 63."
            )
        found[name] = text or ""
    return found


def flavors_of(stored: Iterable[Mapping[str, Any]]) -> tuple[Flavor, ...]:
    """The flavors that a backend's row keeps."""
    return tuple(Flavor(each["name"], each["node_labels"]) for each in stored)


def flavors_json(flavors: Iterable[Flavor]) -> list[dict[str, Any]]:
    """The flavors as a backend's row keeps them, and as answers show them."""
    return [{"name": each.name, "node_labels": dict(sorted(each.node_labels.items()))} for each in flavors]


def find_flavor(labels: Mapping[str, str], flavors: Iterable[Flavor]) -> Flavor | None:
    """The flavor of a node with these labels, None for `default`."""
    return next((each for each in flavors if each.has_node(labels)), None)


def flavor_of_labels(labels: Mapping[str, str], flavors: Iterable[Flavor]) -> tuple[str, tuple[str, ...]]:
    """The flavor of a node with these labels, and all flavors that match: the first one counts."""
    matching = tuple(each.name for each in flavors if each.has_node(labels))
    return (matching[0] if matching else DEFAULT_FLAVOR), matching


def matches_text(matching: Sequence[str]) -> str:
    """What is said of a node that several flavors match."""
    return f"matches the flavors {join_words(matching)}: {matching[0]} counts, the first of them"


def parts_among(stored: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The names of those flavors of a backend's row that count parts of GPUs."""
    return frozenset(each.name for each in flavors_of(stored) if each.is_of_parts)


def find_unreachable(flavors: Sequence[Flavor]) -> Iterator[tuple[str, str]]:
    """(flavor, an earlier one) for each flavor that no node can have, because the earlier one has all its nodes."""
    for place, flavor in enumerate(flavors):
        for earlier in flavors[:place]:
            if earlier.has_node(flavor.node_labels):
                yield flavor.name, earlier.name
                break


def flavors_text(flavors: Iterable[Flavor]) -> str:
    """The flavors as their form has them, one a line."""
    return "\n".join(f"{each.name} {labels_text(each.node_labels, ' ')}" for each in flavors)


def labels_text(labels: Mapping[str, str], separator: str = ",") -> str:
    """Labels as a form has them: `rack=r1,zone=a`."""
    return separator.join(f"{key}={value}" for key, value in sorted(labels.items()))


def flavors_from_text(text: str) -> list[dict[str, Any]]:
    """The JSON of flavors from the lines of their form; the reader of the JSON says what is wrong."""
    lines = (line.split() for line in text.splitlines())
    return [{"name": words[0], "node_labels": labels_from_words(words[1:])} for words in lines if words]


def labels_from_words(words: Iterable[str]) -> dict[str, str]:
    """Labels from words such as `rack=r1`."""
    pairs = (word.partition("=") for word in words if word)
    return {key: value for key, _, value in pairs}
