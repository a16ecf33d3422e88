"""Prepare a workflow file for the server: the text stays unchanged, except that `localpath` files are inlined.

The text is sent as the user wrote it, so that line numbers in the server's answer are those of the file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from osmo_admin.cli.client_errors import ClientError

STANDARD_INPUT = "-"
WORKFLOW_ID = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?-\d+")
TEMPLATE_SYNTAX = ("{{", "{%", "{#", "default-values")


def read_workflow_file(name: str) -> str:
    """The text of a workflow file, `-` for standard input. Raises :class:`ClientError` if it cannot be read."""
    try:
        return sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text(encoding="utf-8")
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
    """The text with each `localpath` replaced by the file's `contents`; the same text if there is none.

    Relative paths begin at `folder`. Text that is not YAML is returned unchanged: the server names its faults.
    Raises :class:`ClientError` with all files that cannot be read.
    """
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    faults: list[dict[str, Any]] = []
    inlined = [_inline_entry(entry, where, folder, faults) for where, entry in _find_file_entries(document)]
    if faults:
        raise ClientError("Local files of the workflow cannot be sent.", details=faults)
    if not any(inlined):
        return text
    # Lines are never folded: a command of one line stays on one line.
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=float("inf")))


def _find_file_entries(document: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every entry of every task's `files`, with its path in the document."""
    workflow = document.get("workflow") if isinstance(document, dict) else None
    if not isinstance(workflow, dict):
        return []
    tasks = _indexed_entries(workflow, "tasks", "workflow")
    for where, member in _indexed_entries(workflow, "groups", "workflow"):
        tasks += _indexed_entries(member, "tasks", where)
    return [entry for where, task in tasks for entry in _indexed_entries(task, "files", where)]


def _indexed_entries(owner: dict[str, Any], key: str, where: str) -> list[tuple[str, dict[str, Any]]]:
    value = owner.get(key)
    entries = value if isinstance(value, list) else []
    return [(f"{where}.{key}[{at}]", each) for at, each in enumerate(entries) if isinstance(each, dict)]


def _inline_entry(entry: dict[str, Any], where: str, folder: Path, faults: list[dict[str, Any]]) -> bool:
    if "localpath" not in entry:
        return False
    location = f"{where}.localpath"
    if "contents" in entry:
        faults.append({"path": location, "message": "a file has either localpath or contents, not both"})
        return False
    source = folder / Path(str(entry["localpath"])).expanduser()
    try:
        contents = source.read_text(encoding="utf-8")
    except OSError as error:
        faults.append({"path": location, "message": f"{source} cannot be read: {error.strerror}"})
        return False
    except UnicodeDecodeError:
        faults.append({"path": location, "message": f"{source} is not text in UTF-8"})
        return False
    del entry["localpath"]
    entry["contents"] = contents
    return True
