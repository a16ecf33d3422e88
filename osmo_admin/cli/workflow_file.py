"""A workflow file on its way to the server: untouched, except that `localpath` files travel inside it.

The text is sent as the user wrote it, so that the lines in the server's answer are the user's lines.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from osmo_admin.cli.client_errors import REFUSED_SUBMISSION, ClientError

STANDARD_INPUT = "-"
WORKFLOW_ID = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?-\d+")
TEMPLATE_SYNTAX = ("{{", "{%", "{#", "default-values")


def refusal_error(message: str) -> ClientError:
    """A submission that did not leave this machine."""
    return ClientError(message, exit_code=REFUSED_SUBMISSION)


def read_workflow_file(name: str) -> str:
    """The text of a workflow file, `-` for standard input. Raises :class:`ClientError` if it cannot be read."""
    try:
        return sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise refusal_error(f"The workflow file {name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise refusal_error(f"The workflow file {name} is not text in UTF-8.") from error


def is_workflow_id(name: str) -> bool:
    """True when the argument is no file but the ID of a workflow whose spec is to be submitted again."""
    return name != STANDARD_INPUT and not Path(name).exists() and WORKFLOW_ID.fullmatch(name) is not None


def is_templated(text: str) -> bool:
    """True when the server has to render the text first."""
    return any(mark in text for mark in TEMPLATE_SYNTAX)


def mentions_local_files(text: str) -> bool:
    """True when the text may name files of this machine."""
    return "localpath" in text


def inline_local_files(text: str, folder: Path) -> str:
    """The text with each `localpath` replaced by the file's `contents`; the same text if there is none.

    `folder` is where relative paths begin. Text that is not YAML is returned as it is: the server names its faults.
    Raises :class:`ClientError` for a file that cannot be read, all of them at once.
    """
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    faults: list[dict[str, Any]] = []
    found = [_inline_entry(entry, where, folder, faults) for where, entry in _find_file_entries(document)]
    if faults:
        raise ClientError("Local files of the workflow cannot be sent.", exit_code=REFUSED_SUBMISSION, details=faults)
    if not any(found):
        return text
    # never folded: a command that was one line stays one line
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
    place = f"{where}.localpath"
    if "contents" in entry:
        faults.append({"path": place, "message": "a file has either localpath or contents, not both"})
        return False
    source = folder / Path(str(entry["localpath"])).expanduser()
    try:
        contents = source.read_text(encoding="utf-8")
    except OSError as error:
        faults.append({"path": place, "message": f"{source} cannot be read: {error.strerror}"})
        return False
    except UnicodeDecodeError:
        faults.append({"path": place, "message": f"{source} is not text in UTF-8"})
        return False
    del entry["localpath"]
    entry["contents"] = contents
    return True
