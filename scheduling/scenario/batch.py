"""Many scenarios at once: files, directories, documents; one answer or error object for each (docs/scenarios.md)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pools.domain.errors import BadInput, DomainError, Fault, Violation
from pools.domain.values.file_text import decode_text
from scheduling.structured_yaml.value_reader import YamlDocument, read_documents

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One document: its source and its answer. `is_readable` is False for an error object."""

    source: str
    body: dict[str, Any]
    is_readable: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """The answers in order. `is_single`: one file with one document, whose answer is printed alone. `skipped`
    counts the documents without an answer by their kind."""

    entries: tuple[BatchEntry, ...]
    is_single: bool
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 if every document was answered, 2 if one could not be read."""
        return 0 if all(entry.is_readable for entry in self.entries) else 2

    def output_objects(self) -> Iterator[dict[str, Any]]:
        """The objects to print, each with its `source` unless it is the only one."""
        for entry in self.entries:
            yield entry.body if self.is_single else {"source": entry.source, **entry.body}


AnswerDocument = Callable[[Any], Mapping[str, Any]]


def answer_sources(
    sources: Iterable[str],
    answer: AnswerDocument,
    *,
    error_code: str,
    stdin: str | None = None,
    skip: Callable[[Any], str | None] = lambda _value: None,
) -> Batch:
    """Answer every document of the sources: files, directories, or `-`. `answer` raises `DomainError` to refuse; `skip`
    names the kind of a document that has no answer."""
    given = list(sources)
    skipped: Counter[str] = Counter()
    entries: list[BatchEntry] = []
    for source in given:
        for name, text in _texts(source, stdin):
            if isinstance(text, Violation):
                entries.append(BatchEntry(name, error_object(text.message, [text], error_code), is_readable=False))
                continue
            found = read_documents(text)
            for number, document in enumerate(found):
                label = name if len(found) == 1 else f"{name}#{number + 1}"
                if not document.faults and (kind := skip(document.value)) is not None:
                    skipped[kind] += 1
                    continue
                try:
                    entries.append(BatchEntry(label, dict(answer(document_value(document))), is_readable=True))
                except DomainError as error:
                    details = add_lines(text, number, error.details)
                    entries.append(
                        BatchEntry(label, error_object(error.message, details, error_code), is_readable=False)
                    )
    alone = len(given) == 1 and len(entries) == 1 and not (given[0] != STDIN and Path(given[0]).is_dir())
    return Batch(tuple(entries), alone, skipped)


def document_value(document: YamlDocument) -> Any:
    """The value of the document. Raises `BadInput` if it could not be read."""
    if document.faults:
        raise BadInput.of(document.faults)
    return document.value


def add_lines(text: str, document_index: int, faults: Sequence[Violation]) -> list[Violation]:
    """The faults of one document of the text with their lines; it is read a second time, for errors only."""
    read = read_documents(text, record_lines=True)
    lines = read[document_index].lines if document_index < len(read) else {}
    return [fault if fault.line else replace(fault, line=line_of(fault.path, lines)) for fault in faults]


def line_of(path: str, lines: Mapping[str, int]) -> int | None:
    """The line of the path, or of the value around it: a missing key has no line of its own."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def error_object(message: str, details: Iterable[Violation], error_code: str) -> dict[str, Any]:
    """The error object of the API."""
    return {
        "message": message,
        "error_code": error_code,
        "workflow_id": None,
        "details": [violation.as_dict() for violation in details],
    }


def _texts(source: str, stdin: str | None) -> Iterator[tuple[str, str | Violation]]:
    if source == STDIN:
        yield STDIN, _text(sys.stdin.buffer.read(), "Standard input") if stdin is None else stdin
        return
    path = Path(source)
    if path.is_dir():
        files = sorted(child for child in path.iterdir() if child.suffix in SUFFIXES and child.is_file())
        if not files:
            message = f"The directory '{source}' has no {', '.join(f'*{suffix}' for suffix in SUFFIXES)}."
            yield source, Violation("", Fault.BAD_VALUE, message)
        for child in files:
            yield f"{source.rstrip('/')}/{child.name}", _read(child)
    else:
        yield source, _read(path)


def _read(path: Path) -> str | Violation:
    try:
        return _text(path.read_bytes(), "The file")
    except OSError as error:
        return Violation("", Fault.BAD_VALUE, f"The file cannot be read: {error.strerror}.")


def _text(content: bytes, what: str) -> str | Violation:
    try:
        return decode_text(content)
    except UnicodeDecodeError:
        return Violation("", Fault.BAD_VALUE, f"{what} is not valid UTF-8.")
