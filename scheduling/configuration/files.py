"""Files of the configuration -> their objects, or every fault with its file and line.

A file is a map of sections, each a map from names to objects. Any file may have any section, so one file for
everything, one for each team or one for each object read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.structured_input.faults import join_words, quote
from pools.domain.values.counting import counted
from pools.domain.values.file_text import decode_text
from pools.domain.values.scalars import UnreadableScalar
from pools.domain.values.stored_text import is_storable
from scheduling.configuration.bodies import SECTION_BY_KEY, SETTINGS_NAME, Section
from scheduling.scenario.batch import line_of
from scheduling.structured_yaml.value_reader import DocumentMap, read_documents

MAX_FAULTS = 200


@dataclass(frozen=True, slots=True)
class FileObject:
    """An object as a file gives it: its form, the path of the file below the folder, and the lines of its values by
    their paths (`pools.vision.backend`)."""

    kind: OwnedKind
    name: str
    body: Mapping[str, Any]
    path: str
    prefix: str
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def line(self) -> int | None:
        """The line where the object begins."""
        return self.lines.get(self.prefix)

    def locate(self, fault: Violation) -> Violation:
        """The fault of a value of this object, with its place in the file."""
        path = f"{self.prefix}.{fault.path}" if fault.path else self.prefix
        return _located(replace(fault, path=path), self.path, self.lines)


@dataclass(slots=True)
class ConfigurationFiles:
    """The objects of all files by kind and name, and the faults; with a fault the objects are not complete. `notes`
    names the parts that were left out."""

    objects: dict[tuple[OwnedKind, str], FileObject] = field(default_factory=dict)
    faults: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class BadFiles(BadInput):
    """The files cannot be applied; nothing was written. `details` has every fault with `file` and `line`, at most
    MAX_FAULTS; `count` is the number of all."""

    count: int = 0

    @classmethod
    def of_faults(cls, faults: list[Violation]) -> BadFiles:
        """All of them at once."""
        count = len(faults)
        shown = sorted(faults, key=lambda fault: (dict(fault.numbers).get("file", ""), fault.line or 0))[:MAX_FAULTS]
        more = f", and {count - MAX_FAULTS} more" if count > MAX_FAULTS else ""
        found = cls(f"The files have {counted(count, 'fault')}{more}; nothing was written.", shown)
        found.count = count
        return found


Sections = Mapping[str, Any]


def read_file(
    path: str, content: bytes, found: ConfigurationFiles, *, adapt: Callable[[Sections], Sections] = lambda read: read
) -> None:
    """Add the objects and the faults of one file. `path` is its name in messages; `adapt` turns its sections into
    ours."""
    sections, lines = _read_sections(path, content, found)
    for key, value in adapt(sections).items():
        section = SECTION_BY_KEY.get(key)
        if section is None:
            fault = Violation(
                key, Fault.UNKNOWN_KEY, f"{quote(key)} is not a section. Sections are {join_words(SECTION_BY_KEY)}."
            )
            found.faults.append(_located(fault, path, lines))
        else:
            _read_section(section, value, path, lines, found)


def _read_sections(path: str, content: bytes, found: ConfigurationFiles) -> tuple[Mapping[str, Any], dict[str, int]]:
    """The sections of a file, and the lines of all values; nothing after a fault of the file as a whole."""
    try:
        documents = read_documents(decode_text(content), record_lines=True)
    except UnicodeDecodeError:
        found.faults.append(_located(Violation("", Fault.BAD_VALUE, "The file is not valid UTF-8."), path, {}))
        return {}, {}
    broken = [fault for document in documents for fault in document.faults]
    if not broken and len(documents) > 1:
        broken = [Violation("", Fault.BAD_VALUE, "The file has several documents (`---`); write one.")]
    value, lines = documents[0].value, documents[0].lines
    if not broken:
        broken = list(value_faults(value, ""))
    if not broken and value is not None and not isinstance(value, dict):
        broken = [Violation("", Fault.BAD_VALUE, f"The file must be a map of sections: {join_words(SECTION_BY_KEY)}.")]
    if broken:
        found.faults += [_located(fault, path, lines) for fault in broken]
        return {}, {}
    return with_json_numbers(value or {}), lines


def _read_section(section: Section, value: Any, path: str, lines: dict[str, int], found: ConfigurationFiles) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        expected = "a map of settings" if section.is_single else "a map from names to objects"
        found.faults.append(
            _located(Violation(section.key, Fault.BAD_VALUE, f"{section.key} must be {expected}."), path, lines)
        )
        return
    named = {SETTINGS_NAME: value} if section.is_single else value
    for name, inner in named.items():
        prefix = section.key if section.is_single else f"{section.key}.{name}"
        _read_object(section, FileObject(section.kind, str(name), {}, path, prefix, lines), inner, found)


def _read_object(section: Section, place: FileObject, value: Any, found: ConfigurationFiles) -> None:
    if not isinstance(value, dict):
        found.faults.append(place.locate(Violation("", Fault.BAD_VALUE, f"{place.prefix} must be a map.")))
        return
    before = found.objects.get((place.kind, place.name))
    if before is not None:
        message = f"{place.prefix} is given twice, here and in {before.path} line {before.line or 1}. Keep one."
        found.faults.append(place.locate(Violation("", Fault.DUPLICATE_NAME, message)))
        return
    body, faults = section.read(place.name, value)
    found.notes += [f"{place.prefix}: {text}" for text in section.left_out(place.name, value)]
    found.faults += [place.locate(fault) for fault in faults]
    found.objects[place.kind, place.name] = replace(place, body=body)


def _located(fault: Violation, path: str, lines: Mapping[str, int]) -> Violation:
    line = fault.line or line_of(fault.path, lines) or 1
    return replace(fault, line=line, numbers=(*fault.numbers, ("file", path)))


def value_faults(value: Any, path: str) -> Iterator[Violation]:
    """Values that no reader can use, texts that the database cannot store, and keys that are given twice."""
    if isinstance(value, UnreadableScalar):
        yield Violation(path, Fault.BAD_VALUE, f"{path}: the value {value.reason}.")
    elif isinstance(value, str):
        if not is_storable(value):
            yield Violation(path, Fault.BAD_VALUE, f"{path}: the text has a character that cannot be stored.")
    elif isinstance(value, dict):
        for key in value.repeated_keys if isinstance(value, DocumentMap) else ():
            at = f"{path}.{key}" if path else key
            yield Violation(at, Fault.DUPLICATE_KEY, f"The key {quote(key)} is given twice in the same map. Keep one.")
        for key, inner in value.items():
            if not is_storable(key):
                yield Violation(path, Fault.BAD_VALUE, f"{path}: a key has a character that cannot be stored.")
            yield from value_faults(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from value_faults(inner, f"{path}[{place}]")


def with_json_numbers(value: Any) -> Any:
    """Exact fractions as the floats of JSON, for the readers of the API's bodies."""
    if isinstance(value, dict):
        return {key: with_json_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_json_numbers(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value
