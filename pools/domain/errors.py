"""Errors of the domain: a code for programs, a message for people, and the numbers of the message.

Errors know nothing of HTTP. The API maps `kind` to a status code, the command line to an exit code (api.md, top).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict, cast


class ErrorCode(StrEnum):
    """The `error_code` that clients test (OSMO contract, section 1)."""

    USER = "USER"
    USAGE = "USAGE"
    RESOURCE = "RESOURCE"
    NOTFOUND = "NOTFOUND"
    SERVER = "SERVER"
    SCENARIO = "SCENARIO"


class ErrorKind(StrEnum):
    """The kind of an error; each interface renders it in its own way."""

    BAD_INPUT = "bad_input"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
    THROTTLED = "throttled"
    BUSY = "busy"


class ViolationBody(TypedDict):
    """One broken rule; its numbers follow under keys of their own."""

    path: str
    code: str
    message: str
    line: NotRequired[int]


ViolationAnswer = Annotated[ViolationBody, {"additionalProperties": True}]


class ErrorAnswer(TypedDict):
    """A refusal; `details` are all broken rules at once."""

    message: str
    error_code: Annotated[str, ErrorCode]
    workflow_id: str | None
    details: list[ViolationAnswer]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its place (`path`, and `line` from 1 in a file), its `code`, and a message for people."""

    path: str
    code: str
    message: str
    line: int | None = None
    severity: str = "error"
    numbers: tuple[tuple[str, Any], ...] = ()

    def as_dict(self) -> ViolationBody:
        """One entry of `details`."""
        body: ViolationBody = {"path": self.path, "code": self.code, "message": self.message}
        if self.line is not None:
            body["line"] = self.line
        return cast("ViolationBody", {**body, **dict(self.numbers)})


class DomainError(Exception):
    """A refusal. `message` is the text for people; `details` are all broken rules at once."""

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
        """All broken rules. If none is given, the error itself is the only one, with its kind as the code."""
        return self.details or (Violation("", str(self.kind), self.message),)

    def as_dict(self) -> ErrorAnswer:
        """The JSON of the error."""
        return {
            "message": self.message,
            "error_code": str(self.error_code),
            "workflow_id": self.workflow_id,
            "details": [violation.as_dict() for violation in self.violations],
        }

    @classmethod
    def of(cls, violations: Iterable[Violation], **more: Any) -> DomainError:
        """An error whose message is made of the messages of its violations."""
        found = tuple(violations)
        return cls(" ".join(violation.message for violation in found), found, **more)


class BadInput(DomainError):
    """The request breaks a rule of form, name or quota."""


class Unauthenticated(DomainError):
    """The request has no valid credential."""

    kind = ErrorKind.UNAUTHENTICATED


class Forbidden(DomainError):
    """The actor may see the object but lacks the role for this action."""

    kind = ErrorKind.FORBIDDEN


class NotFound(DomainError):
    """The object does not exist, or the actor may not see it; both give the same answer on purpose."""

    kind = ErrorKind.NOT_FOUND
    error_code = ErrorCode.NOTFOUND


class Conflict(DomainError):
    """The state of the object, or a concurrent change, forbids the action now."""

    kind = ErrorKind.CONFLICT


class Stale(DomainError):
    """The object changed since the caller read it."""

    kind = ErrorKind.STALE


class UnsupportedMedia(DomainError):
    """The request has a media type that is not supported."""

    kind = ErrorKind.UNSUPPORTED


class Throttled(DomainError):
    """There were too many attempts; the caller has to wait."""

    kind = ErrorKind.THROTTLED


class Busy(DomainError):
    """A lock or a dependency did not answer in time; nothing was changed, and a retry may succeed."""

    kind = ErrorKind.BUSY
    error_code = ErrorCode.SERVER
