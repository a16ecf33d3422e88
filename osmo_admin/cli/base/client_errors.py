"""Errors of the client: the message for people and the exit code for scripts.

Exit codes are those of the stock client: 1 a refused submission, 2 any other refusal or a usage error,
3 interrupted, 10 the server (or the scheduler of a replay) failed or did not answer, 75 slow down and try again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pools.domain.errors import common_part

REFUSED_SUBMISSION = 1
REFUSED = 2
INTERRUPTED = 3
SERVER_FAILED = 10
TRY_AGAIN = 75

SUBMISSION_CODES = frozenset({"USAGE", "RESOURCE"})
MAX_BODY_LENGTH = 500


class ClientError(Exception):
    """One failure. `status` is the HTTP status of a response; `details` are all faults that the server named."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int = REFUSED,
        status: int | None = None,
        details: Sequence[Mapping[str, Any]] = (),
        error_code: str | None = None,
        workflow_id: str | None = None,
        hint: str | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.status = status
        self.details = [dict(detail) for detail in details]
        self.error_code = error_code
        self.workflow_id = workflow_id
        self.hint = hint
        self.title = title

    def as_dict(self) -> dict[str, Any]:
        """For programs: `{"message", "code"}` as the stock client prints, and more fields of the server's error."""
        body: dict[str, Any] = {"message": self.message, "code": self.status or 1}
        more = {"error_code": self.error_code, "workflow_id": self.workflow_id, "details": self.details}
        return body | {key: value for key, value in more.items() if value}

    def text_lines(self) -> list[str]:
        """For people: a title, the message, one line for each fault with its location, and a hint."""
        lines = [self.title] if self.title else []
        lines += [self._headline() if self.title else f"Error: {self._headline()}"]
        lines += [f"  - {detail_location(detail)}{detail.get('message', '')}" for detail in self._separate_details()]
        return lines + ([self.hint] if self.hint else [])

    def _headline(self) -> str:
        faults = self._separate_details()
        common = common_part(self.message, [str(fault.get("message", "")) for fault in faults])
        if common is not None:  # each has a line of its own
            return common or f"{len(faults)} faults:"
        if len(faults) > 1 and self.message.endswith(f" ({len(faults) - 1} more in details)"):
            return f"{len(faults)} faults:"  # the message repeats the first one, for clients that show no details
        where = detail_location(self.details[0]) if self.details and not faults else ""
        if where and f"{where}{self.details[0].get('message', '')}" in self.message:  # the server named the place
            where = ""
        return where + (self.message or "The request was refused.")

    def _separate_details(self) -> list[dict[str, Any]]:
        """The details; empty if the only one repeats the message."""
        if len(self.details) == 1 and str(self.details[0].get("message", "")) in self.message:
            return []
        return self.details


def detail_location(detail: Mapping[str, Any]) -> str:
    """`line 12, workflow.tasks[0].image: `, or an empty text for a fault without a location; with the file before it
    where several files may have faults (`source`), and `pools.yaml:12: ` for a fault in a configuration (`file`).

    A message that begins with its path does not need the path a second time.
    """
    line, path = detail.get("line"), detail.get("path")
    if file := detail.get("file"):
        return f"{file}:{line}: " if line else f"{file}: "
    if path and str(detail.get("message", "")).startswith((f"{path} ", f"{path}:")):
        path = None
    source = detail.get("source")
    location = ", ".join([str(source)] * bool(source) + [f"line {line}"] * bool(line) + [str(path)] * bool(path))
    return f"{location}: " if location else ""


def meant_text(meant: Mapping[str, str]) -> str:
    """`Did you mean vision?`, with the typed name where there are several."""
    if len(meant) == 1:
        return f"Did you mean {next(iter(meant.values()))}?"
    return " ".join(f"Did you mean {near} in place of {name}?" for name, near in meant.items())


def error_from_response(status: int, headers: Mapping[str, str], text: str, *, submitting: bool) -> ClientError:
    """The error for an HTTP response with a status of 300 or more.

    `submitting` marks a workflow submission: the stock client counts a credential error as a refusal there.
    """
    body = _parse_object(text)
    message = _response_message(body, text)
    details = [entry for entry in body.get("details") or [] if isinstance(entry, dict)]
    error_code, hint = body.get("error_code"), None
    if status >= 500:
        request = headers.get("x-request-id")
        suffix = f" (request {request})" if request else ""
        exit_code, message = SERVER_FAILED, f"The server failed ({status}){suffix}: {message}"
    elif status == 429:
        exit_code = TRY_AGAIN
        hint = None if "again in" in message else _retry_hint(headers)
    elif error_code in SUBMISSION_CODES or (submitting and error_code == "CREDENTIAL"):
        exit_code = REFUSED_SUBMISSION
    elif status < 400:
        exit_code = REFUSED
        message = f"The server has moved to {headers.get('location', 'another address')}; log in there."
    else:
        exit_code = REFUSED
    return ClientError(
        message,
        exit_code=exit_code,
        status=status,
        details=details,
        error_code=error_code,
        workflow_id=body.get("workflow_id"),
        hint=hint,
    )


def _parse_object(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _response_message(body: Mapping[str, Any], text: str) -> str:
    """The server's message. A body that is not an error object is returned as text, cut to a readable length."""
    message = body.get("message") or body.get("detail")
    if isinstance(message, str):
        return message
    text = text.strip()
    return text if len(text) <= MAX_BODY_LENGTH else text[:MAX_BODY_LENGTH] + "…"


def _retry_hint(headers: Mapping[str, str]) -> str | None:
    seconds = headers.get("retry-after")
    return f"Try again in {seconds} seconds." if seconds and seconds.isdigit() else None
