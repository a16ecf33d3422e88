"""What the house says no with: a code for programs, a sentence for people, the numbers beside it.

Errors know nothing of HTTP. The API maps `kind` to a status code, the command line to an exit code (api.md, top).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar


class ErrorCode(StrEnum):
    """The `error_code` a client branches on (OSMO contract, section 1)."""

    USER = "USER"
    USAGE = "USAGE"
    RESOURCE = "RESOURCE"
    NOTFOUND = "NOTFOUND"
    SERVER = "SERVER"
    SCENARIO = "SCENARIO"


class ErrorKind(StrEnum):
    """What sort of no it is; each door renders it in its own way."""

    BAD_INPUT = "bad_input"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
    THROTTLED = "throttled"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: where (`path`, and `line` from 1 in a file), which (`code`), and a sentence for people."""

    path: str
    code: str
    message: str
    line: int | None = None
    severity: str = "error"
    numbers: tuple[tuple[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The shape of one entry of `details`."""
        body: dict[str, Any] = {"path": self.path, "code": self.code, "message": self.message}
        if self.line is not None:
            body["line"] = self.line
        return body | dict(self.numbers)


class DomainError(Exception):
    """A refusal. `message` is the sentence; `details` are all broken rules at once."""

    kind: ClassVar[ErrorKind] = ErrorKind.BAD_INPUT
    error_code: ErrorCode = ErrorCode.USER

    def __init__(
        self,
        message: str,
        details: Iterable[Violation] = (),
        *,
        error_code: ErrorCode | None = None,
        workflow_id: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.workflow_id = workflow_id
        self.retry_after = retry_after
        if error_code is not None:
            self.error_code = error_code

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All broken rules; where none is named apart, the refusal itself is the one, and its kind the code."""
        return self.details or (Violation("", str(self.kind), self.message),)

    @classmethod
    def of(cls, violations: Iterable[Violation], **more: Any) -> DomainError:
        """An error whose sentence is that of its violations."""
        found = tuple(violations)
        return cls(" ".join(violation.message for violation in found), found, **more)


class BadInput(DomainError):
    """What was asked breaks a rule of form, name or quota."""


class Unauthenticated(DomainError):
    """Nobody is logged in, or the credential is not valid."""

    kind = ErrorKind.UNAUTHENTICATED


class Forbidden(DomainError):
    """You may see it but not do this to it."""

    kind = ErrorKind.FORBIDDEN


class NotFound(DomainError):
    """It does not exist, or you may not see it; the answer is the same on purpose."""

    kind = ErrorKind.NOT_FOUND
    error_code = ErrorCode.NOTFOUND


class Conflict(DomainError):
    """The object's state, or somebody else's change, forbids it now."""

    kind = ErrorKind.CONFLICT


class Stale(DomainError):
    """It changed since you read it."""

    kind = ErrorKind.STALE


class UnsupportedMedia(DomainError):
    """It came in a form that nobody here reads."""

    kind = ErrorKind.UNSUPPORTED


class Throttled(DomainError):
    """Too many attempts; wait."""

    kind = ErrorKind.THROTTLED


class Busy(DomainError):
    """A lock or a dependency did not answer in time; nothing was changed, try again."""

    kind = ErrorKind.BUSY
    error_code = ErrorCode.SERVER
