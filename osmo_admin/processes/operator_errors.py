"""Errors of operator commands: a message on standard error and exit code 1 instead of a stack trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from osmo_admin.ops.files.disk_space import is_disk_full
from osmo_admin.ops.programs.errors import OperationError
from pools.domain.errors import DomainError


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Errors that an operator can fix end the process with a message; a defect keeps its stack trace."""
    try:
        yield
    except Exception as problem:
        message = error_message(problem)
        if message is None:
            raise
        print(message, file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def error_message(problem: Exception) -> str | None:
    """The message of an expected error, None for an unexpected one."""
    if isinstance(problem, DomainError):
        details = [f"  {each.path}: {each.message}" for each in problem.details if each.message not in problem.message]
        return "\n".join([problem.message, *details])
    if isinstance(problem, OperationError) or _is_bad_variable(problem):
        return str(problem)
    if isinstance(problem, PermissionError):
        path = f" ({problem.filename})" if problem.filename else ""
        return f"You are not permitted to do this{path}. Run the command as the owner of the data directory."
    if isinstance(problem, OSError) and is_disk_full(problem):
        return f"There is no room left on the disk{f' of {problem.filename}' if problem.filename else ''}. Make room."
    return _django_message(problem)


def _is_bad_variable(problem: Exception) -> bool:
    """True for a variable of the environment that cannot be read. Without `environs` there is no such error."""
    environs = sys.modules.get("environs")
    return environs is not None and isinstance(problem, environs.EnvError)


def _django_message(problem: Exception) -> str | None:
    """The message of an error of Django. Django is imported only if the error itself comes from there."""
    if not any(base.__module__.startswith("django.") for base in type(problem).__mro__):
        return None
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import CommandError
    from django.db import ProgrammingError

    from pools.database.errors import is_database_away

    if is_database_away(problem):
        from osmo_admin.processes.database_server import pooler_refusal

        return pooler_refusal(problem) or (
            f"The database does not answer ({str(problem).splitlines()[0]}). Start OSMO Admin with `osmo-admin up`, "
            "name its folder with --data-dir, or set DATABASE_URL."
        )
    if isinstance(problem, ProgrammingError):
        return f"The database is not prepared ({str(problem).splitlines()[0]}). Run: osmo-admin manage migrate"
    if isinstance(problem, ImproperlyConfigured | CommandError):
        return str(problem)
    return None
