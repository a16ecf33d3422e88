"""The data of a task: inputs, outputs, files, credentials, mounts, and keys without an effect."""

from __future__ import annotations

import re
import warnings
from typing import Any

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import quote, shorten
from pools.domain.values.durations import parse_duration
from scheduling.specs.name_rules import is_name
from scheduling.specs.yaml_cursor import YamlCursor, iterate_items

UNUSED = ("checkpoint", "kpis", "downloadType", "cacheSize")
"""Keys of OSMO that have no effect here."""

_LONGEST_PATTERN = 500
_SOURCES = {
    "task": ("task", "regex"),
    "url": ("url", "regex"),
    "dataset": ("dataset",),
    "update_dataset": ("update_dataset",),
}
_DATASET = ("name", "path", "paths", "metadata", "labels", "regex", "localpath")


def read_inputs(place: YamlCursor | None) -> tuple[dict[str, Any], ...]:
    """`inputs`: each one a task, a url or a dataset."""
    return _sources(place, ("task", "url", "dataset"))


def read_outputs(place: YamlCursor | None) -> tuple[dict[str, Any], ...]:
    """`outputs`: each one a url or a dataset."""
    return _sources(place, ("url", "dataset", "update_dataset"))


def read_files(place: YamlCursor | None) -> tuple[dict[str, Any], ...]:
    """`files`: put into the container at `path`. A `localpath` that no client has replaced is a warning."""
    files, seen = [], set()
    for item in iterate_items(place, "files"):
        found = item.known_fields(("path", "contents", "base64", "localpath"), required=("path",))
        path = (found["path"].text() if "path" in found else None) or ""
        if path and not _may_be_written(path):
            found["path"].add_fault(
                Fault.BAD_PATH,
                "A file cannot be put there: the path is empty or belongs to OSMO. Choose one outside /osmo.",
            )
        elif path and path in seen:
            found["path"].add_fault(Fault.DUPLICATE_PATH, "Two files have this path. Give each its own.")
        seen.add(path)
        if "contents" not in found and "localpath" in found:
            found["localpath"].add_warning(
                "the client reads this file from its own disk and sends the contents; "
                "this file was sent without its contents, so it will be missing."
            )
        elif "contents" not in found and found and "contents" not in item.map_entries(""):
            item.add_fault(
                Fault.MISSING, "The file has no contents. Add `contents:` (or `localpath:`, which the client reads)."
            )
        contents = found["contents"].text(may_be_empty=True) if "contents" in found else ""
        if "base64" in found:
            found["base64"].boolean(False)
        files.append(item.plain_value | {"contents": contents or ""} if found else {})
    return tuple(files)


def read_environment(place: YamlCursor | None) -> dict[str, str]:
    """`environment`: names and texts."""
    if place is None:
        return {}
    found = place.text_map("NAME: value")
    for name, entry in place.map_entries("").items():
        if not name or "=" in name or name != name.strip():
            entry.add_fault(
                Fault.BAD_NAME,
                f"{quote(name)} is not a valid name for an environment variable: it may not be empty, hold `=`, or "
                "begin or end with a blank. Change it.",
            )
    return found


def read_credentials(place: YamlCursor | None) -> dict[str, str | dict[str, str]]:
    """`credentials`: name -> directory, or {variable: key}. They are names of secrets kept elsewhere."""
    found: dict[str, str | dict[str, str]] = {}
    if place is None or place.is_absent:
        return found
    for name, entry in place.map_entries("name: directory, or name: {VARIABLE: key}").items():
        if entry.is_map:
            found[name] = entry.text_map("VARIABLE: key")
        elif (directory := entry.text()) is not None:
            found[name] = directory
    if found:
        place.faults.add_warning(
            f"The credentials {', '.join(map(quote, found))} are named credentials; whether they exist is "
            "not checked here."
        )
    return found


def read_mounts(place: YamlCursor | None) -> tuple[tuple[YamlCursor, str], ...]:
    """`volumeMounts`: `path` or `path:path in the container`, with the place of each."""
    mounts = []
    for item in iterate_items(place, "paths, or path:path"):
        text = item.text()
        source, colon, target = (text or "").partition(":")
        if text and (not source or (colon and not target) or ":" in target):
            item.add_fault(Fault.BAD_MOUNT, "Allowed are /path and /path:/path/in/container. Change it.")
        elif text:
            mounts.append((item, text))
    return tuple(mounts)


def check_unused(found: dict[str, YamlCursor]) -> None:
    """The keys in `UNUSED`: checked only far enough to find typing errors, with a warning that they have no effect."""
    for name in UNUSED:
        if name in found:
            found[name].add_warning("it is not used here: no data is moved, and no results are collected.")
    for item in iterate_items(found.get("checkpoint"), "checkpoints"):
        fields = item.known_fields(("path", "url", "frequency", "regex"), required=("path", "url", "frequency"))
        _check_texts(fields, ("path", "url"))
        _check_pattern(fields.get("regex"))
        if "frequency" in fields and (text := fields["frequency"].text()) is not None and parse_duration(text) is None:
            fields["frequency"].add_fault(
                Fault.BAD_DURATION,
                "This is not a time; allowed is a number with d, h, m, s, ms or us. Write for example 10m.",
            )
    for item in iterate_items(found.get("kpis"), "kpis"):
        _check_texts(item.known_fields(("index", "path"), required=("index", "path")), ("index", "path"))
    _check_texts(found, ("downloadType", "cacheSize"))


def _sources(place: YamlCursor | None, kinds: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    read = []
    for item in iterate_items(place, f"maps with one of {', '.join(kinds)}"):
        entries = item.map_entries(f"one of {', '.join(kinds)}")
        given = [kind for kind in kinds if kind in entries]
        if len(given) != 1 and item.is_map:
            item.known_fields(tuple({name for kind in given or kinds for name in _SOURCES[kind]}))
            item.add_fault(
                Fault.BAD_SOURCE,
                f"Here {'none' if not given else ' and '.join(given)} of {', '.join(kinds)} is named; "
                "exactly one must be. Write one entry for each.",
            )
        elif given:
            read.append(_source(item, given[0]))
    return tuple(read)


def _source(item: YamlCursor, kind: str) -> dict[str, Any]:
    found = item.known_fields(_SOURCES[kind], required=(kind,))
    made: dict[str, Any] = item.plain_value
    what = found.get(kind)
    if what is not None and what.is_map and kind in ("dataset", "update_dataset"):
        inner = what.known_fields(_DATASET, required=("name",))
        _check_texts(inner, ("name", "path", "localpath"))
        _check_pattern(inner.get("regex"))
        for name in ("paths", "metadata", "labels"):
            if name in inner:
                inner[name].texts()
    elif what is not None:
        text = what.text() or ""
        if kind == "task" and text and not all(is_name(part) for part in text.split(":", 1)):
            what.add_fault(
                Fault.BAD_NAME,
                "This does not name a task; write the name of a task, or workflow:task for one of an earlier workflow.",
            )
            text = ""
        made = item.plain_value | {kind: text}  # as written, even if it looks like a number
    _check_pattern(found.get("regex"))
    return made


def _check_texts(found: dict[str, YamlCursor], names: tuple[str, ...]) -> None:
    for name in names:
        if name in found:
            found[name].text()


def _check_pattern(place: YamlCursor | None) -> None:
    pattern = place.text(may_be_empty=True) if place is not None else None
    if place is None or not pattern:
        return
    if len(pattern) > _LONGEST_PATTERN:
        place.add_fault(
            Fault.BAD_REGEX, f"The pattern has {len(pattern)} characters; at most {_LONGEST_PATTERN} are allowed."
        )
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful pattern is still a pattern
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        place.add_fault(Fault.BAD_REGEX, f"This is not a regular expression: {shorten(str(error))}. Correct it.")


def _may_be_written(path: str) -> bool:
    parts = [part for part in path.split("/") if part]
    return path.startswith("/osmo/data/output/") or (bool(parts) and parts[0] != "osmo")
