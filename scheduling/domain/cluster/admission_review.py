"""AdmissionReview v1 as plain JSON: the request of the API server and our response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from pools.domain.errors import BadInput, Fault, Violation, joined_messages
from scheduling.domain.cluster.queue_access import Caller
from scheduling.domain.kubernetes_json import ReadOnlyObject

API_VERSION = "admission.k8s.io/v1"
FORBIDDEN_STATUS, INVALID_STATUS = 403, 422
MAX_WARNING_LENGTH = 240
"""The API server cuts warnings that are longer than 4096 characters in sum."""

_FORBIDDING = (Fault.FOREIGN_WORK, Fault.FOREIGN_CHANGE, Fault.PERCENT_UNDER_CAP, "single.max.", "total.max.")
"""Prefixes of the codes of well-formed requests that are not allowed."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A request of the API server. `new_object` is None for a deletion, `old_object` for a creation. A dry run
    (`is_dry_run`) may leave no trace."""

    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    caller: Caller
    new_object: ReadOnlyObject | None
    old_object: ReadOnlyObject | None
    is_dry_run: bool


def read_review(body: Any) -> AdmissionRequest:
    """The request of a review. Raises `BadInput` with every fault of an invalid body."""
    request = body.get("request") if isinstance(body, Mapping) else None
    if not isinstance(request, Mapping):
        sentence = f"The body is not an AdmissionReview of {API_VERSION}: it has no `request`."
        raise BadInput(sentence, [Violation("request", Fault.BAD_VALUE, sentence)])
    faults: list[Violation] = []
    version = body.get("apiVersion")
    if version != API_VERSION:
        faults.append(Violation("apiVersion", Fault.BAD_VALUE, f"Only {API_VERSION} is understood."))

    def text(holder: ReadOnlyObject, key: str, path: str, *, needed: bool = False) -> str:
        value = holder.get(key)
        if (value is None or value == "") and not needed:
            return ""
        if not isinstance(value, str) or not value:
            faults.append(Violation(f"{path}.{key}", Fault.BAD_VALUE, f"`{key}` is a text."))
            return ""
        return value

    def item(holder: ReadOnlyObject, key: str, path: str) -> Any:
        value = holder.get(key)
        if value is not None and not isinstance(value, Mapping):
            faults.append(Violation(f"{path}.{key}", Fault.BAD_VALUE, f"`{key}` is an object or null."))
            return None
        return value

    kind = item(request, "kind", "request") or {}
    user = item(request, "userInfo", "request") or {}
    groups = user.get("groups")
    question = AdmissionRequest(
        uid=text(request, "uid", "request", needed=True),
        operation=text(request, "operation", "request", needed=True),
        kind=text(kind, "kind", "request.kind", needed=True),
        namespace=text(request, "namespace", "request"),
        name=text(request, "name", "request"),
        caller=Caller(
            text(user, "username", "request.userInfo"),
            frozenset(each for each in groups if isinstance(each, str)) if isinstance(groups, list) else frozenset(),
        ),
        new_object=item(request, "object", "request"),
        old_object=item(request, "oldObject", "request"),
        is_dry_run=request.get("dryRun") is True,
    )
    if faults:
        raise BadInput.of(faults)
    return question


class CauseAnswer(TypedDict):
    """One reason of a refusal; `field` is its path in the object."""

    reason: str
    message: str
    field: str


class StatusDetails(TypedDict):
    """The object that is refused, and every reason."""

    name: str
    kind: str
    causes: list[CauseAnswer]


class RefusalStatus(TypedDict):
    """A Kubernetes Status of a refusal; `code` is its HTTP status."""

    metadata: dict[str, str]
    status: str
    message: str
    reason: str
    code: int
    details: StatusDetails


class AdmissionResponse(TypedDict):
    """Whether the change is allowed; `status` is the Kubernetes Status of a refusal."""

    uid: str
    allowed: bool
    warnings: NotRequired[list[str]]
    status: NotRequired[RefusalStatus]


class ReviewAnswer(TypedDict):
    """An AdmissionReview with our answer in `response`."""

    apiVersion: str
    kind: str
    response: AdmissionResponse


def review_response(
    request: AdmissionRequest, violations: Sequence[Violation] = (), warnings: Sequence[str] = ()
) -> ReviewAnswer:
    """The review with our response. With violations it refuses and names all of them, in one message and as causes."""
    response: AdmissionResponse = {"uid": request.uid, "allowed": not violations}
    if warnings:
        response["warnings"] = [warning[:MAX_WARNING_LENGTH] for warning in warnings]
    if violations:
        forbidden = any(violation.code.startswith(_FORBIDDING) for violation in violations)
        response["status"] = {
            "metadata": {},
            "status": "Failure",
            "message": joined_messages(violations),
            "reason": "Forbidden" if forbidden else "Invalid",
            "code": FORBIDDEN_STATUS if forbidden else INVALID_STATUS,
            "details": {
                "name": request.name,
                "kind": request.kind,
                "causes": [
                    {"reason": str(violation.code), "message": violation.message, "field": violation.path}
                    for violation in violations
                ],
            },
        }
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
