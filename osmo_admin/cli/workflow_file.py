"""Prepare a workflow file for the server: the text stays unchanged, except that `localpath` files are inlined.

The text is sent as the user wrote it, so that line numbers in the server's answer are those of the file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.yaml_files import STANDARD_INPUT, read_text_file

WORKFLOW_ID = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?-\d+")
TEMPLATE_SYNTAX = ("{{", "{%", "{#", "default-values")


def read_workflow_file(name: str) -> str:
    """The text of a workflow file, `-` for standard input. Raises :class:`ClientError` if it cannot be read."""
    try:
        return read_text_file(name)
    except OSError as error:
        raise ClientError(f"The workflow file {name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ClientError(f"The workflow file {name} is not text in UTF-8.") from error


def is_workflow_id(name: str) -> bool:
    """True if the argument is not a file but the ID of a workflow to submit again."""
    return name != STANDARD_INPUT and not Path(name).exists() and WORKFLOW_ID.fullmatch(name) is not None


def is_templated(text: str) -> bool:
    """True if the server has to render the text first."""
    return any(mark in text for mark in TEMPLATE_SYNTAX)


def mentions_local_files(text: str) -> bool:
    """True if the text may name files of this machine."""
    return "localpath" in text


def inline_local_files(text: str, folder: Path) -> str:
    """The text with each `localpath` replaced by the file's `contents`, on the same line: everything else, and the
    numbers of lines, stay as they are. The same text if there is none.

    Relative paths begin at `folder`. Text that is not YAML is returned unchanged: the server names its faults.
    Raises :class:`ClientError` with all files that cannot be read.
    """
    import yaml

    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.YAMLError:
        return text
    faults: list[dict[str, Any]] = []
    places: dict[int, tuple[int, str]] = {}
    for document in documents:
        for where, entry in _find_file_entries(document):
            _inline_entry(text, entry, where, folder, places, faults)
    if faults:
        raise ClientError("Local files of the workflow cannot be sent.", details=faults)
    for start, (end, contents) in sorted(places.items(), reverse=True):
        text = f"{text[:start]}contents: {_quoted(contents)}{text[end:]}"
    return text


def _quoted(contents: str) -> str:
    """A text in the double quotes of YAML, on one line."""
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ufeff]",
        lambda mark: f"\\u{ord(mark[0]):04x}",
        json.dumps(contents, ensure_ascii=False),
    )


def _find_file_entries(document: Any) -> list[tuple[str, Any]]:
    """Every entry of every task's `files`, with its path in the document."""
    workflow = _value_of(document, "workflow")
    tasks = _indexed_entries(workflow, "tasks", "workflow")
    for where, member in _indexed_entries(workflow, "groups", "workflow"):
        tasks += _indexed_entries(member, "tasks", where)
    return [entry for where, task in tasks for entry in _indexed_entries(task, "files", where)]


def _indexed_entries(owner: Any, key: str, where: str) -> list[tuple[str, Any]]:
    value = _value_of(owner, key)
    entries = value.value if value is not None and value.id == "sequence" else []
    return [(f"{where}.{key}[{at}]", each) for at, each in enumerate(entries)]


def _value_of(mapping: Any, key: str) -> Any:
    """The node of the key's value, None if there is none."""
    return next((value for name, value in _pairs(mapping) if name.value == key), None)


def _pairs(mapping: Any) -> list[tuple[Any, Any]]:
    return mapping.value if mapping is not None and mapping.id == "mapping" else []


def _inline_entry(
    text: str, entry: Any, where: str, folder: Path, places: dict[int, tuple[int, str]], faults: list[dict[str, Any]]
) -> None:
    """Note in `places` where the text of a `localpath` begins and ends, and the contents for it."""
    found = next((pair for pair in _pairs(entry) if pair[0].value == "localpath"), None)
    if found is None:
        return
    name, value = found
    location = f"{where}.localpath"
    if _value_of(entry, "contents") is not None:
        faults.append({"path": location, "message": "a file has either localpath or contents, not both"})
        return
    if value.id != "scalar":
        faults.append({"path": location, "message": "must be the path of a file"})
        return
    source = folder / Path(value.value).expanduser()
    try:
        contents = source.read_text(encoding="utf-8")
    except OSError as error:
        faults.append({"path": location, "message": f"{source} cannot be read: {error.strerror}"})
    except (UnicodeDecodeError, ValueError):
        faults.append({"path": location, "message": f"{source} is not text in UTF-8"})
    else:
        # The end of a block of text is behind its line break.
        end = len(text[: value.end_mark.index].rstrip())
        places[name.start_mark.index] = end, contents
