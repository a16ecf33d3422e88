"""Small files, and functions that read them for tests."""

from __future__ import annotations

from typing import Any

from scheduling.domain.workflow_spec import TaskSpec, WorkflowSpec
from scheduling.specs import ParsedSpec, parse

MINIMAL = """\
workflow:
  name: hello
  tasks:
  - {name: t, image: ubuntu, command: [sh]}
"""


def one_task_file(fields: str = "", workflow: str = "") -> str:
    """A file with one task; `fields` are further lines of the task, `workflow` of the workflow."""
    lines = [f"    {line}" for line in fields.splitlines()] + [f"  {line}" for line in workflow.splitlines()]
    head = "workflow:\n  name: hello\n  tasks:\n  - name: t\n    image: ubuntu\n    command: [sh]\n"
    return head + "\n".join(lines) + "\n"


def read_valid(text: str, **more: Any) -> WorkflowSpec:
    """The spec of a valid file."""
    parsed = parse(text, **more)
    assert parsed.violations == ()
    assert parsed.spec is not None
    return parsed.spec


def read_valid_task(fields: str = "", workflow: str = "", **more: Any) -> TaskSpec:
    """The one task of `one_task_file`."""
    return read_valid(one_task_file(fields, workflow), **more).tasks[0]


def read_faults(text: str, **more: Any) -> list[tuple[int | None, str, str]]:
    """Line, path and code of every fault of an invalid file."""
    parsed = parse(text, **more)
    assert_consistent(parsed)
    assert parsed.spec is None
    return [(fault.line, fault.path, fault.code) for fault in parsed.violations]


def read_fault_codes(text: str, **more: Any) -> list[str]:
    """The codes alone."""
    return [code for _, _, code in read_faults(text, **more)]


def assert_consistent(parsed: ParsedSpec) -> None:
    """The properties of every answer."""
    assert (parsed.spec is None) == bool(parsed.violations)
    for fault in parsed.violations:
        assert fault.path
        assert fault.code
        assert fault.message.endswith((".", "?"))
        assert len(fault.message) < 800
        assert fault.message.isprintable()
        assert fault.line is None or fault.line >= 1
    assert "\0" not in parsed.rendered_text
