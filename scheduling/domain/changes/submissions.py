"""The submission of work (design, O7.1): the file, and what accompanies it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import TEXT, TEXTS, choice, in_address, value
from pools.domain.structured_input.fields import FieldReader
from scheduling.domain.priorities import Priority

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}\Z", re.ASCII)


def _read_pairs(reader: FieldReader, key: str) -> dict[str, str]:
    """The `KEY=VALUE` texts of a list as a map; the last value of a key wins."""
    result = {}
    for text in reader.read_texts(key):
        name, equals, given = text.partition("=")
        if not name or not equals:
            reader.add_fault(key, Fault.BAD_VALUE, "must have the form KEY=VALUE.")
        else:
            result[name] = given
    return result


def _read_variables(reader: FieldReader, key: str) -> dict[str, str]:
    found = _read_pairs(reader, key)
    for name in found:
        if not _ENV_NAME.match(name):
            reader.add_fault(key, Fault.BAD_VALUE, "has a name that is not valid for a variable.")
    return found


def _read_priority(reader: FieldReader, key: str) -> Priority | None:
    text = reader.field(key).text() or ""
    found = {str(each): each for each in Priority}.get(text.upper())
    if text and found is None:
        reader.add_fault(key, Fault.BAD_QUERY, f"must be one of {', '.join(Priority)}.")
    return found


PAIRS = replace(TEXTS, looks="pairs", read=_read_pairs)
VARIABLES = replace(PAIRS, read=_read_variables)
PRIORITY = replace(choice(list(Priority)), read=_read_priority)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionChange(ChangeCommand):
    """Work that begins on a pool or subpool."""

    audit: ClassVar = (AuditAction.WORKFLOW_SUBMITTED,)
    permission: ClassVar = Permission.POOL_SUBMIT
    pool_field: ClassVar = "pool"
    needs_version: ClassVar = False
    has_preview: ClassVar = False  # its dry run answers the rendered file, and is a part of its query

    pool: str = in_address("POOL", "Pool or subpool", "Pool or subpool that runs it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWorkflow(SubmissionChange):
    """Submit a workflow file, or a PodGroup manifest as work."""

    service: ClassVar = "submit"

    file: str = value(
        TEXT,
        "Workflow or PodGroup (YAML or JSON)",
        "The text of the workflow file, or of a PodGroup.",
        missing="is missing: give the text of the workflow file.",
    )
    set_variables: Sequence[str] = value(
        TEXTS, "Template variables", "KEY=VALUE for a template; numbers become numbers.", default=()
    )
    set_string_variables: Sequence[str] = value(
        TEXTS, "Text variables", "KEY=VALUE for a template, always text.", default=()
    )
    uploaded_templated_spec: str = value(
        TEXT, "Template", "The file before a dry run rendered it; then `file` is not a template.", default=""
    )
    priority: Priority | None = value(
        PRIORITY,
        "Priority",
        "HIGH, NORMAL or LOW; NORMAL if neither this nor a PodGroup gives one. LOW work may go over quota and be "
        "preempted.",
        default=None,
        in_query=True,
    )
    workflow_id: str = value(
        TEXT, "Again", "Submit the file of this workflow again; then there is no body.", default="", in_query=True
    )
    env_vars: Mapping[str, str] | None = value(
        VARIABLES, "Variables", "KEY=VALUE, an environment variable of every task.", default=None, in_query=True
    )
    label: Mapping[str, str] | None = value(
        PAIRS, "Labels", "KEY=VALUE; wins over the label of the file.", default=None, in_query=True
    )
    app_uuid: str = value(TEXT, "App", "The app that this work belongs to.", default="", in_query=True)
    app_version: str = value(TEXT, "Version", "The version of the app.", default="", in_query=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartWorkflow(SubmissionChange):
    """Submit a failed workflow again."""

    service: ClassVar = "submit"

    workflow: str = in_address("WORKFLOW", "Workflow", "Workflow ID or UUID.")
