"""Turning what goes wrong in an operator's command into a sentence on standard error and exit code 1."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from environs import EnvError

from osmo_admin.ops.errors import OperationError
from pools.domain.errors import DomainError


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Errors an operator can act on end the process with their sentence; a defect of ours keeps its trace."""
    try:
        yield
    except Exception as problem:
        said = error_message(problem)
        if said is None:
            raise
        print(said, file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def error_message(problem: Exception) -> str | None:
    """The words for an expected error, None for an unexpected one."""
    if isinstance(problem, DomainError):
        details = [f"  {each.path}: {each.message}" for each in problem.details if each.message not in problem.message]
        return "\n".join([problem.message, *details])
    if isinstance(problem, OperationError | EnvError):
        return str(problem)
    if isinstance(problem, PermissionError):
        what = f" ({problem.filename})" if problem.filename else ""
        return f"You are not permitted to do this{what}. Run it as the user whose house it is."
    return _django_message(problem)


def _django_message(problem: Exception) -> str | None:
    """Asked only about an error that came out of Django, so nothing is loaded that was not there."""
    if not any(base.__module__.startswith("django.") for base in type(problem).__mro__):
        return None
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import CommandError
    from django.db import InterfaceError, OperationalError, ProgrammingError

    if isinstance(problem, OperationalError | InterfaceError):
        return (
            f"The database does not answer ({str(problem).splitlines()[0]}). Start the house with `osmo-admin up`, "
            "name its folder with --data-dir, or set DATABASE_URL."
        )
    if isinstance(problem, ProgrammingError):
        return f"The database is not prepared ({str(problem).splitlines()[0]}). Run: osmo-admin manage migrate"
    if isinstance(problem, ImproperlyConfigured | CommandError):
        return str(problem)
    return None
