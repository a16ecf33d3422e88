"""Imports of other software's files in tests: text in, objects and report out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.importing import import_sources
from scheduling.moving_in.options import ImportOptions, SourceKind
from scheduling.moving_in.result import BadSource, ImportResult, PartOutcome
from scheduling.moving_in.source_text import source_text


def imported(kind: str, *texts: str, **options: Any) -> ImportResult:
    """The result of an import of these files."""
    sources = [source_text(f"f{at}", text.encode()) for at, text in enumerate(texts, 1)]
    return import_sources(SourceKind(kind), sources, ImportOptions(**options))


def body(result: ImportResult, kind: OwnedKind, name: str) -> dict[str, Any]:
    """The form of an object."""
    return dict(result.objects[kind, name])


def pool(result: ImportResult, name: str) -> dict[str, Any]:
    """The form of a pool."""
    return body(result, OwnedKind.POOL, name)


def gpu(result: ImportResult, name: str) -> tuple[int, int, int]:
    """Quota, maximum and weight of a pool."""
    found = pool(result, name)["resources"]["gpu"]
    return found["guarantee"], found["maximum"], found["weight"]


def told(result: ImportResult, outcome: PartOutcome) -> str:
    """All report lines of a kind as one text, each with its line and key."""
    lines = [line for line in result.lines if line.outcome is outcome]
    return "\n".join(f"{line.place}: {line.place.key}: {line.text}" for line in lines)


def silent_keys(kind: str, text: str, *, is_json: bool = False, **options: Any) -> list[str]:
    """The keys of YAML documents that could be left out without any change of the objects or the report: an import
    that reads them and does nothing. `is_json`: the documents begin with a bracket, as JSON does."""
    documents = list(yaml.load_all(text, yaml.CSafeLoader))
    whole = _essence(kind, documents, is_json, options)
    return [
        path
        for at, document in enumerate(documents)
        for path, less in _with_one_less(document, "")
        if _essence(kind, [*documents[:at], less, *documents[at + 1 :]], is_json, options) == whole
    ]


def _essence(kind: str, documents: list[Any], is_json: bool, options: dict[str, Any]) -> Any:
    try:
        text = yaml.dump_all(
            documents, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=is_json, width=2**20
        )
        result = imported(kind, text, **options)
    except BadSource as refusal:
        return refusal.details
    return result.objects, sorted((line.outcome, line.place.key, line.text) for line in result.lines)


def _with_one_less(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The value without each of its keys, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}", {other: kept for other, kept in value.items() if other != key}
            for below, less in _with_one_less(inner, f"{path}.{key}"):
                yield below, {**value, key: less}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            for below, less in _with_one_less(inner, f"{path}[{at}]"):
                yield below, [*value[:at], less, *value[at + 1 :]]
