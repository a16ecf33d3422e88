"""Text of a scenario or manifest → plain values: maps, lists, texts, exact numbers. JSON takes a faster path.

Numbers keep their digits, a key that is given twice is remembered, and a scalar that no reader can use becomes an
`UnreadableScalar`. Depth, size and the number of values are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from pools.domain.errors import Fault, Violation
from pools.domain.values.scalars import UnreadableScalar, json_number, plain_scalar
from scheduling.structured_yaml.composer import CORE_TAG, CompositionStopped, OpenCollection, YamlComposer

MAX_CHARACTERS = 64 * 2**20
MAX_REPEATED_KEYS = 100  # keys of one map that are reported as given twice
MAX_VALUES = 3_000_000
MAX_LEVELS = 64

_SCALAR_TAGS = frozenset(f"{CORE_TAG}{name}" for name in ("str", "int", "float", "bool", "null"))


class DocumentMap(dict[str, Any]):
    """A map as written; `repeated_keys` are the keys that are given more than once."""

    repeated_keys: tuple[str, ...] = ()


@dataclass(slots=True)
class YamlDocument:
    """One document: its value, or the faults that keep it from being read. `lines`: path → line, from 1, if wanted
    for."""

    value: Any = None
    faults: list[Violation] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_documents(text: str, *, record_lines: bool = False, max_values: int = MAX_VALUES) -> list[YamlDocument]:
    """The documents of a file that hold something, in order; a document that cannot be read ends the file. Of a file
    with empty documents only, such as `---`, the first."""
    if len(text) > MAX_CHARACTERS:
        message = f"The file has more than {MAX_CHARACTERS:,} characters."
        return [YamlDocument(faults=[Violation("", Fault.BAD_VALUE, message)])]
    if not record_lines and text.lstrip()[:1] in {"{", "["}:
        quick = _json(text)
        if quick is not None:
            return [quick]
    found: list[YamlDocument] = []
    try:
        found.extend(_documents(text, record_lines=record_lines, max_values=max_values))
    except UnicodeEncodeError:
        found.append(YamlDocument(faults=[Violation("", Fault.BAD_VALUE, "The text holds invalid characters.")]))
    except CompositionStopped as stop:
        found.append(YamlDocument(faults=[Violation("", Fault.BAD_VALUE, str(stop), stop.line + 1)]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
        line = None if mark is None else mark.line + 1
        found.append(YamlDocument(faults=[Violation("", Fault.BAD_VALUE, f"This is not valid YAML: {problem}.", line)]))
    if not found:
        found.append(YamlDocument(faults=[Violation("", Fault.BAD_VALUE, "The file is empty.")]))
    return [document for document in found if document.faults or document.value is not None] or found[:1]


def _documents(text: str, *, record_lines: bool, max_values: int) -> Iterator[YamlDocument]:
    """The documents one by one, so that those before a fault are kept."""
    composer = _ValueComposer(text, max_values)
    composer.lines = {} if record_lines else None
    for value in composer.documents():
        yield YamlDocument(value, lines=composer.lines or {})
        composer.lines = {} if record_lines else None


def _json(text: str) -> YamlDocument | None:
    def pairs(items: list[tuple[str, Any]]) -> DocumentMap:
        made = DocumentMap(items)
        if len(made) != len(items):
            made.repeated_keys = _repeated_keys(key for key, _value in items)
        return made

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_int=json_number, parse_float=json_number,
            parse_constant=lambda name: UnreadableScalar(name, "is not a number"),
        )  # fmt: skip
    except ValueError:
        return None
    except RecursionError:
        return YamlDocument(
            faults=[Violation("", Fault.BAD_VALUE, f"Values may be nested at most {MAX_LEVELS} levels deep.")]
        )
    return YamlDocument(value)


def _repeated_keys(keys: Iterator[str]) -> tuple[str, ...]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for key in keys:
        if key in seen:
            twice[key] = None
        seen.add(key)
    return tuple(twice)


class _ValueComposer(YamlComposer):
    """Plain values: `DocumentMap`, list, text, exact number, boolean, None or `UnreadableScalar`."""

    max_levels: ClassVar[int] = MAX_LEVELS
    max_values: ClassVar[int] = MAX_VALUES

    def scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        return _scalar(event)

    def key(self, event: Any, line: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise CompositionStopped(Fault.BAD_KEY, "A key is a name, not a list or a map.", line)
        return str(event.value)

    def collection(self, line: int, *, is_map: bool) -> Any:
        return DocumentMap() if is_map else []

    def append(self, top: OpenCollection, value: Any) -> None:
        top.holder.append(value)

    def put(self, top: OpenCollection, key: str, value: Any) -> None:
        holder: DocumentMap = top.holder
        if key in holder and len(holder.repeated_keys) < MAX_REPEATED_KEYS:
            holder.repeated_keys = (*holder.repeated_keys, key)
        holder[key] = value

    def unknown_tag(self, tag: str, line: int) -> None:
        raise CompositionStopped(Fault.UNKNOWN_TAG, f"The tag '{tag}' is not known here.", line)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag not in _SCALAR_TAGS and event.tag != "!":
        return UnreadableScalar(event.tag, "is a tag that is not known here")
    if event.style or (event.tag is not None and event.tag.endswith(":str")) or event.tag == "!":
        return text
    return plain_scalar(text)


def is_read_as_text(text: str) -> bool:
    """Whether the text, written without quotes, is read as the same text."""
    return plain_scalar(text) is text
