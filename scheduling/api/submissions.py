"""Sending work to a pool: one workflow, many at once, and a failed one again (OSMO contract, 7.1; api.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import body_object, query_boolean, unknown_key_violation
from pools.api.schema import array_of, describe_operation, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, ErrorCode, Violation
from scheduling.api.queries import parse_enum_values, parse_pairs, query_list
from scheduling.api.work_schemas import (
    BATCH_SUBMISSION_BODY,
    NOTES_BODY,
    SUBMISSION_ANSWER,
    SUBMISSION_BODY,
    SUBMIT_DRY_RUN,
    SUBMIT_PARAMETERS,
    VALIDATION_ONLY,
)
from scheduling.api.workflow_bodies import WorkflowLinks
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import WorkflowStatus
from scheduling.selectors.workflows import get_visible_workflow, queue_names_of
from scheduling.services.workflows.submission import (
    Submission,
    SubmissionReceipt,
    check_submission,
    check_submissions,
    resubmission,
    submit,
    submit_many,
)

MAX_BATCH = 500
_VALID = "The workflow file is valid and pool {pool} would take it."
_IN_FILE = ("file", "set_variables", "set_string_variables", "uploaded_templated_spec")
_BESIDE = ("priority", "label", "env_vars", "app_uuid", "app_version")


class WorkflowSubmission(View):
    """One workflow: a file in the body, or with `workflow_id` the file of one on record."""

    @describe_operation(
        "Submit a workflow file, or a PodGroup manifest as work.",
        query_parameters=SUBMIT_PARAMETERS,
        body=SUBMISSION_BODY,
        answer=SUBMISSION_ANSWER,
    )
    def post(self, request: Request, pool: str) -> Response:
        submission = _submission(self, request)
        return self.run_once(lambda: _answer(self, request, pool, submission))


class WorkflowBatchSubmission(View):
    """Up to 500 workflows, all or none, for one lock and one commit."""

    @describe_operation(
        "Submit up to 500 workflows, all or none.",
        query_parameters=[SUBMIT_DRY_RUN],
        body=BATCH_SUBMISSION_BODY,
        answer=object_with({"workflows": array_of(SUBMISSION_ANSWER)}),
    )
    def post(self, request: Request, pool: str) -> Response:
        body = body_object(request)
        found = [unknown_key_violation(key) for key in body if key not in {"workflows", "description", "tags"}]
        items = body.get("workflows")
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
            sentence = f"workflows is a list of 1 to {MAX_BATCH} objects, each with its file."
            raise _refused([*found, Violation("workflows", "bad_value", sentence)])
        submissions = [_from_item(item, f"workflows[{place}].", found) for place, item in enumerate(items)]
        if found:
            raise _refused(found)

        links = WorkflowLinks(request)
        if query_boolean(request, "dry_run"):
            checked = check_submissions(actor=self.actor, pool=pool, submissions=submissions)
            bodies = [_body(receipt, links, logs=None, spec=receipt.rendered) for receipt in checked]
            return Response({"workflows": bodies})

        def make() -> Response:
            receipts = submit_many(actor=self.actor, pool=pool, submissions=submissions)
            return Response({"workflows": [_submitted(receipt, links) for receipt in receipts]})

        return self.run_once(make)


class WorkflowRestart(View):
    """A failed workflow again, as a new one with the old one's priority."""

    @describe_operation(
        "Submit a failed workflow again.",
        query_parameters=[SUBMIT_DRY_RUN, VALIDATION_ONLY],
        body=NOTES_BODY,
        answer=SUBMISSION_ANSWER,
    )
    def post(self, request: Request, pool: str, workflow: str) -> Response:
        body = body_object(request)
        if found := [unknown_key_violation(key) for key in body if key not in {"description", "tags"}]:
            raise _refused(found)
        seen = get_visible_workflow(self.actor, workflow)
        if not WorkflowStatus(seen.status).is_failed:
            sentence = f"Workflow {seen.name} is {seen.status}; only failed workflows can be restarted."
            raise BadInput(
                sentence,
                [Violation("workflow", "not_failed", sentence)],
                error_code=ErrorCode.USAGE,
                workflow_id=seen.name,
            )
        submission = resubmission(seen, Submission(file="", priority=Priority(seen.priority)))
        return self.run_once(lambda: _answer(self, request, pool, submission))


def _answer(view: View, request: Request, pool: str, submission: Submission) -> Response:
    links = WorkflowLinks(request)
    if query_boolean(request, "validation_only"):
        receipt = check_submission(actor=view.actor, pool=pool, submission=submission)
        sentence = _VALID.format(pool=receipt.pool.name)
        return Response(_body(receipt, links, logs=sentence, spec=None))
    if query_boolean(request, "dry_run"):
        receipt = check_submission(actor=view.actor, pool=pool, submission=submission)
        return Response(_body(receipt, links, logs=None, spec=receipt.rendered))
    return Response(_submitted(submit(actor=view.actor, pool=pool, submission=submission), links))


def _submitted(receipt: SubmissionReceipt, links: WorkflowLinks) -> dict[str, Any]:
    assert receipt.workflow is not None
    return _body(receipt, links, logs=links.text_url(receipt.workflow, "logs"), spec=None)


def _body(receipt: SubmissionReceipt, links: WorkflowLinks, *, logs: str | None, spec: str | None) -> dict[str, Any]:
    workflow = receipt.workflow
    page = links.page_url(workflow) if workflow else None
    queue, k8s_queue = queue_names_of(workflow) if workflow else (receipt.pool.queue, receipt.pool.k8s_queue)
    return {
        "name": workflow.name if workflow else receipt.spec.name,
        "overview": page,
        "logs": logs,
        "spec": spec,
        "dashboard_url": page,
        "warnings": list(receipt.warnings),
        "queue": queue,
        "k8s_queue": k8s_queue,
        "workflow_uuid": str(workflow.pk) if workflow else None,
        "status": workflow.status if workflow else None,
        "pool": receipt.pool.name,
    }


def _submission(view: View, request: Request) -> Submission:
    """The submission of a request: the file in its body, or the one that `workflow_id` names."""
    body = body_object(request)
    found: list[Violation] = []
    old = request.query_params.get("workflow_id")
    beside: dict[str, Any] = {
        "priority": request.query_params.get("priority"),
        "label": query_list(request, "label"),
        "env_vars": query_list(request, "env_vars"),
        "app_uuid": request.query_params.get("app_uuid"),
        "app_version": request.query_params.get("app_version"),
    }
    if old and body:
        raise _refused(
            [Violation("workflow_id", "two_files", "Give a file or the workflow_id of an old one, not both.")]
        )
    if not old and not body:
        raise _refused([Violation("file", "missing", "Give a workflow file, or the workflow_id of one on record.")])
    if old:
        submission = _read({"file": ""} | beside, "", found)
        return resubmission(get_visible_workflow(view.actor, old), _sound(submission, found))
    found += [unknown_key_violation(key) for key in body if key not in _IN_FILE]
    return _sound(_read({key: body.get(key) for key in _IN_FILE} | beside, "", found), found)


def _sound(submission: Submission, found: list[Violation]) -> Submission:
    if found:
        raise _refused(found)
    return submission


def _refused(found: list[Violation]) -> BadInput:
    return BadInput.of(found, error_code=ErrorCode.USAGE)  # type: ignore[return-value]


def _from_item(item: Any, prefix: str, found: list[Violation]) -> Submission:
    if not isinstance(item, dict):
        found.append(Violation(prefix.rstrip("."), "bad_value", "Each workflow is an object with its file."))
        return Submission(file="")
    for key in item:
        if key not in _IN_FILE and key not in _BESIDE:
            fault = unknown_key_violation(key)
            found.append(Violation(prefix + fault.path, fault.code, fault.message))
    return _read(item, prefix, found)


def _read(values: dict[str, Any], prefix: str, found: list[Violation]) -> Submission:
    """A submission from plain values; what they are not is noted in `found` under `prefix`."""

    def one(key: str, kind: Callable[[Any], bool], wanted: str, default: Any) -> Any:
        value = values.get(key)
        if value is None:
            return default
        if kind(value):
            return value
        found.append(Violation(f"{prefix}{key}", "bad_value", f"{key} must be {wanted}."))
        return default

    def text(key: str) -> str:
        return str(one(key, lambda value: isinstance(value, str), "a text", ""))

    def texts(key: str) -> tuple[str, ...]:
        def all_texts(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)

        return tuple(one(key, all_texts, "a list of texts", ()))

    if values.get("file") is None:
        found.append(Violation(f"{prefix}file", "missing", "file is missing: the text of the workflow file."))
    priority = None
    try:
        if written := text("priority"):
            (priority,) = parse_enum_values([written], Priority, f"{prefix}priority")
    except BadInput as error:
        found += error.details
    template = text("uploaded_templated_spec")
    return Submission(
        file=text("file"),
        priority=priority,
        set_variables=texts("set_variables"),
        set_string_variables=texts("set_string_variables"),
        template=template,
        already_rendered=bool(template),
        labels=parse_pairs(texts("label"), f"{prefix}label", found),
        env_vars=parse_pairs(texts("env_vars"), f"{prefix}env_vars", found),
        app_uuid=text("app_uuid"),
        app_version=text("app_version"),
    )
