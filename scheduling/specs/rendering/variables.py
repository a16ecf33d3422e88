"""The variables of a template: the pool's, then the file's `default-values`, then those of `--set`.

A value given with `--set` has a type for tests, loops and sums, and still prints exactly as it was typed: OSMO reads
integers and fractions and leaves everything else text, so `--set verbose=false` must print `false` (Python's word would
be `False`), and a JSON object must stay JSON. `false` and lists that behave as such are an addition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults, quote, shorten
from scheduling.specs.rendering.file_text import is_too_large
from scheduling.structured_yaml.node_reader import MAX_DEPTH, read_yaml
from scheduling.structured_yaml.nodes import MapNode, Node, ScalarNode, plain_value
from scheduling.structured_yaml.nodes import SequenceNode as List

MAX_ASSIGNMENTS = 1000


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A typed value that prints as `text`."""

    text: str
    value: Any


def node_value(node: Node) -> Any:
    """A node of `default-values` as the value for a template; dates are texts, keys of other types stay."""
    if isinstance(node, List):
        return [node_value(item) for item in node.items]
    if isinstance(node, MapNode):
        return {_key(entry.key, name): node_value(entry.node) for name, entry in node.entries.items()}
    return plain_value(node)


def merge_variables(
    pool: Mapping[str, Any],
    defaults: Mapping[str, Any],
    typed: Sequence[str],
    strings: Sequence[str],
    faults: Faults,
) -> tuple[dict[str, Any], set[str]]:
    """All variables by name, and the names that `--set` and `--set-string` gave (their first part, if dotted)."""
    variables: dict[str, Any] = {**pool, **defaults}
    given: set[str] = set()
    for path, assignment, as_text in _assignments(typed, strings, faults):
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not all(name.split(".")) or name.count(".") >= MAX_DEPTH:
            faults.add(
                path,
                Fault.BAD_ASSIGNMENT,
                "One of the assignments sets nothing. Write `name=value`; a dotted name "
                "reaches into a map (`resources.default.gpu=2`).",
            )
            continue
        given.add(name.split(".")[0])
        _assign(variables, name.split("."), text if as_text else parse_typed_value(text), path, faults)
    return variables, given


def parse_typed_value(text: str) -> Any:
    """The value of `--set name=text`: an int or a fraction, true/false, a list or map on one line of YAML, or text."""
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    if text.lower() in ("true", "false"):
        return TypedValue(text, text.lower() == "true")
    if text[:1] in ("[", "{"):
        problems = Faults()
        node = read_yaml(text, problems, path="", line_of=lambda line: line + 1, string_keys=False)
        if node is not None and not isinstance(node, ScalarNode) and not problems.violations:
            return TypedValue(text, node_value(node))
    return text


def encode_variables(value: Any) -> Any:
    """A value as JSON that distinguishes what JSON would mix up: keys that are numbers, and `TypedValue`."""
    if isinstance(value, TypedValue):
        return ["w", value.text, encode_variables(value.value)]
    if isinstance(value, Mapping):
        return ["m", [[key, encode_variables(item)] for key, item in value.items()]]
    if isinstance(value, list | tuple):
        return ["l", [encode_variables(item) for item in value]]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def unknown_variable_message(name: str, known: Mapping[str, Any], faults: Faults) -> str:
    """The message for a variable without a value."""
    return (
        f"The template uses {quote(name)}, which has no value.{faults.suggestion(name, known)} Give it one under "
        f"`default-values:`, or with `--set {shorten(name)}=…`."
    )


def _assignments(typed: Sequence[object], strings: Sequence[object], faults: Faults) -> Iterator[tuple[str, str, bool]]:
    if len(typed) + len(strings) > MAX_ASSIGNMENTS:
        faults.add(
            "set_variables",
            Fault.TOO_MANY,
            f"{len(typed) + len(strings)} variables are set; at most "
            f"{MAX_ASSIGNMENTS:,} may be. Put the rest under `default-values:`.",
        )
        return
    for field, values, as_text in (("set_variables", typed, False), ("set_string_variables", strings, True)):
        for index, assignment in enumerate(values):
            path = f"{field}[{index}]"
            if not isinstance(assignment, str):
                faults.add(path, Fault.WRONG_TYPE, "This is not a text. Write it as the text `name=value`.")
            elif is_too_large(assignment):
                faults.add(path, Fault.TOO_LARGE, "This value is larger than a whole file may be. Put it into storage.")
            else:
                yield path, assignment, as_text


def _assign(variables: dict[str, Any], parts: list[str], value: Any, path: str, faults: Faults) -> None:
    here = variables
    for depth, part in enumerate(parts[:-1], start=1):
        inner = here.get(part, {})
        if not isinstance(inner, Mapping):
            name = ".".join(parts[:depth])
            faults.add(
                path,
                Fault.BAD_ASSIGNMENT,
                f"{quote('.'.join(parts))} reaches into {quote(name)}, which is not a map. Set {quote(name)} itself.",
            )
            return
        here[part] = dict(inner)  # a copy: the maps of the pool and of the file must not change
        here = here[part]
    here[parts[-1]] = value


def _key(key: Any, name: str) -> Any:
    return key if key is None or isinstance(key, str | bool | int) else name
