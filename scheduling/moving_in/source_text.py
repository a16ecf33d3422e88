"""Files of other software as text and as values, within bounds: size, lines, encoding, values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from pools.domain.values.file_text import decode_text
from scheduling.configuration.files import value_faults, with_json_numbers
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.structured_yaml.value_reader import read_documents

MAX_BYTES: Final = 32 * 2**20
MAX_LINES: Final = 200_000
MAX_VALUES: Final = 500_000
_JSON_AFTER_JSON: Final = re.compile(r"^[}\]]\s*[{\[]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceText:
    """One file: its name as the person gave it, and its text."""

    name: str
    text: str


def read_source(path: Path, standard_input: BinaryIO) -> SourceText:
    """The text of a file, or of the standard input for `-`. Raises BadSource."""
    name = "standard input" if str(path) == "-" else path.name
    try:
        if str(path) == "-":
            content = standard_input.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise BadSource.at(SourcePlace(name, 1), f"the file cannot be read: {problem.strerror}.") from problem
    return source_text(name, content)


def source_text(name: str, content: bytes) -> SourceText:
    """The text of a file's bytes."""
    if len(content) > MAX_BYTES:
        message = f"the file has more than {MAX_BYTES // 2**20} MiB. Give the objects of quotas alone."
        raise BadSource.at(SourcePlace(name, 1), message)
    try:
        text = decode_text(content)
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise BadSource.at(
            SourcePlace(name, line), "this is not UTF-8. Convert the file: iconv -f LATIN1 -t UTF-8 FILE > NEW."
        ) from problem
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        raise BadSource.at(SourcePlace(name, MAX_LINES), f"the file has more than {MAX_LINES:,} lines. Split it.")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadSource.at(SourcePlace(name, line), "the line has a zero byte, so this is not a text.")
    return SourceText(name, text)


def read_values(sources: list[SourceText], result: ImportResult) -> Iterator[tuple[str, Any, Mapping[str, int]]]:
    """The documents of YAML or JSON files: the file, the value, and its lines by path. Raises BadSource with every
    fault, once all were read."""
    for source in sources:
        for document in read_documents(source.text, record_lines=True, max_values=MAX_VALUES):
            faults = document.faults or list(value_faults(document.value, ""))
            for fault in faults:
                line = fault.line or document.lines.get(fault.path, 1)
                result.fault(SourcePlace(source.name, line), f"{fault.message}{_hint(source.text)}")
            if not faults and document.value is not None:
                yield source.name, with_json_numbers(document.value), document.lines
    if result.faults:
        raise BadSource.of_faults(result.faults)


def _hint(text: str) -> str:
    """What to do about answers of JSON that were written one after the other."""
    is_json = text.lstrip()[:1] in {"{", "["} and _JSON_AFTER_JSON.search(text)
    return " A file may have several JSON objects with a line --- between them." if is_json else ""
