"""Errors of operator commands: which end as one message, and which keep their stack trace."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.core.management import CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.processes.operator_errors import error_message, exit_with_message
from pools.domain.errors import BadInput, Violation


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (OperationError("The port 8000 is in use."), "The port 8000 is in use."),
        (ImproperlyConfigured("SECRET_KEY is empty."), "SECRET_KEY is empty."),
        (CommandError("Unknown command."), "Unknown command."),
        (PermissionError(13, "denied", "/data"), "You are not permitted to do this (/data). Run the command as"),
        (PermissionError(), "You are not permitted to do this. Run the command as"),
        (OperationalError("no route\nto host"), "The database does not answer (no route)."),
        (InterfaceError("closed"), "The database does not answer (closed)."),
        (ProgrammingError("no such table"), "The database is not prepared (no such table). Run: osmo-admin manage"),
    ],
)
def test_an_expected_error_is_one_message(problem: Exception, message: str) -> None:
    assert (error_message(problem) or "").startswith(message)


def test_each_fault_of_a_refusal_stands_on_a_line_of_its_own() -> None:
    refusal = BadInput("Two faults.", [Violation("name", "bad_value", "Too long."), Violation("role", "x", "Unknown.")])
    assert error_message(refusal) == "Two faults.\n  name: Too long.\n  role: Unknown."


@pytest.mark.parametrize("defect", [ValueError("x"), ObjectDoesNotExist("x")])
def test_a_defect_keeps_its_stack_trace(defect: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(defect)), exit_with_message():
        raise defect
    assert capsys.readouterr().err == ""


def test_the_process_ends_with_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, exit_with_message():
        raise OperationError("The port 8000 is in use.")
    assert end.value.code == 1
    assert capsys.readouterr().err == "The port 8000 is in use.\n"
