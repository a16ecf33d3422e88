"""Submissions: one workflow, several workflows at once, and a failed workflow again (OSMO contract, 7.1; api.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.request_parsing import BodyReader, body_object, query_boolean
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.errors import BadInput, ErrorCode, Violation
from pools.domain.roles import Permission
from pools.domain.structured_input import ValueReader
from pools.permissions import require_permission
from scheduling.api.pending_queue import StartAnswer, start_body
from scheduling.api.queries import parse_pairs, query_list
from scheduling.api.work_schemas import (
    BATCH_SUBMISSION_BODY,
    NOTES_BODY,
    SUBMISSION_BODY,
    SUBMIT_DRY_RUN,
    SUBMIT_PARAMETERS,
    SUBMIT_START,
    SUBMIT_WAYS,
    VALIDATION_ONLY,
)
from scheduling.api.workflow_bodies import WorkflowLinks
from scheduling.domain.priorities import Priority
from scheduling.selectors.workflows import get_visible_workflow, queue_names_of
from scheduling.services.workflows.start_question import (
    WayIn,
    compare_ways_in,
    estimate_submissions,
    forecast_submissions,
)
from scheduling.services.workflows.submission import (
    PreparedSubmissions,
    Submission,
    SubmissionReceipt,
    check_prepared,
    prepare_submissions,
    resubmission,
    retry_submission,
    submit_prepared,
)

MAX_BATCH = 500
_VALID_MESSAGE = "The workflow file is valid and pool {pool} would accept it."
_FILE_KEYS = ("file", "set_variables", "set_string_variables", "uploaded_templated_spec")
_PARAMETER_KEYS = ("priority", "label", "env_vars", "app_uuid", "app_version")


class WayAnswer(TypedDict):
    """Another way to submit the work."""

    code: Annotated[str, Literal["as_asked", "pool", "priority", "minimum", "gpus"]]
    text: str
    pool: str
    priority: Annotated[str, Priority]
    gpus: int
    starts_now: bool
    start: StartAnswer | None


class SubmissionAnswer(TypedDict):
    """A submitted workflow, or of a dry run one that would be."""

    name: str
    overview: str | None
    logs: str | None
    spec: str | None
    dashboard_url: str | None
    warnings: list[str]
    queue: str
    k8s_queue: str
    workflow_uuid: str | None
    status: str | None
    pool: str
    start: NotRequired[Annotated[StartAnswer | None, "Of a dry run: when the work would start."]]
    ways: NotRequired[Annotated[list[WayAnswer], "Of a dry run with `ways`: other ways in, the earliest start first."]]


class BatchSubmissionAnswer(TypedDict):
    """The workflows of a batch, in its order."""

    workflows: list[SubmissionAnswer]


class WorkflowSubmission(View):
    """The submission of one workflow: a file in the body, or the file of the recorded workflow `workflow_id`."""

    @describe_operation(
        "Submit a workflow file, or a PodGroup manifest as work.",
        query_parameters=SUBMIT_PARAMETERS,
        body=SUBMISSION_BODY,
        answer=SubmissionAnswer,
    )
    def post(self, request: Request, pool: str) -> Response:
        submission = _read_submission_request(self, request)
        return _run_once(self, request, pool, submission)


class WorkflowBatchSubmission(View):
    """The submission of up to 500 workflows, all or none, with one lock and one commit."""

    @describe_operation(
        "Submit up to 500 workflows, all or none.",
        query_parameters=[SUBMIT_DRY_RUN, SUBMIT_START],
        body=BATCH_SUBMISSION_BODY,
        answer=BatchSubmissionAnswer,
    )
    def post(self, request: Request, pool: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("workflows",))
        items = reader.body.get("workflows")
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
            reader.add_fault(
                "workflows", "bad_value", f"must be a list of 1 to {MAX_BATCH} objects, each with its file."
            )
            reader.raise_faults(error_code=ErrorCode.USAGE)
        submissions = [_read_batch_item(item) for item in reader.field("workflows").list_items("objects")]
        reader.raise_faults(error_code=ErrorCode.USAGE)

        links = WorkflowLinks(request)
        prepare = cache(lambda: prepare_submissions(actor=self.actor, pool=pool, submissions=submissions))
        if _query_flag(request, "dry_run"):
            checked = check_prepared(actor=self.actor, prepared=prepare())
            starts = _starts(self, request, prepare())
            bodies = [_dry_run_body(receipt, links, start) for receipt, start in zip(checked, starts, strict=True)]
            return Response(BatchSubmissionAnswer(workflows=bodies))

        def operation() -> Response:
            receipts = submit_prepared(actor=self.actor, prepared=prepare())
            bodies = [_submission_body(receipt, links) for receipt in receipts]
            return Response(BatchSubmissionAnswer(workflows=bodies))

        return self.run_once(
            operation, require=lambda: require_permission(self.actor, Permission.POOL_SUBMIT, pool), prepare=prepare
        )


class WorkflowRestart(View):
    """The submission of a failed workflow again, as a new workflow with the same priority."""

    @describe_operation(
        "Submit a failed workflow again.",
        query_parameters=[SUBMIT_DRY_RUN, SUBMIT_START, SUBMIT_WAYS, VALIDATION_ONLY],
        body=NOTES_BODY,
        answer=SubmissionAnswer,
    )
    def post(self, request: Request, pool: str, workflow: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(())
        reader.raise_faults(error_code=ErrorCode.USAGE)
        failed = get_visible_workflow(self.actor, workflow)
        submission = retry_submission(failed)
        return _run_once(self, request, pool, submission)


def _run_once(view: View, request: Request, pool: str, submission: Submission) -> Response:
    prepare = cache(lambda: prepare_submissions(actor=view.actor, pool=pool, submissions=[submission]))
    return view.run_once(
        lambda: _submit_or_check(view, request, prepare),
        require=lambda: require_permission(view.actor, Permission.POOL_SUBMIT, pool),
        is_preview=_query_flag(request, "validation_only") or _query_flag(request, "dry_run"),
        prepare=prepare,
    )


def _query_flag(request: Request, name: str) -> bool:
    """The boolean of a query parameter; a fault is one of a submission, which OSMO's clients word as such."""
    try:
        return query_boolean(request, name, default=False)
    except BadInput as refusal:
        raise BadInput.of(list(refusal.violations), error_code=ErrorCode.USAGE) from None


def _submit_or_check(view: View, request: Request, prepare: Callable[[], PreparedSubmissions]) -> Response:
    links, is_dry_run = WorkflowLinks(request), _query_flag(request, "dry_run")
    if _query_flag(request, "validation_only"):
        [receipt] = check_prepared(actor=view.actor, prepared=prepare())
        message = _VALID_MESSAGE.format(pool=receipt.pool.name)
        spec = receipt.rendered if is_dry_run else None  # `workflow validate` reads it
        return Response(_receipt_body(receipt, links, logs=message, spec=spec))
    if is_dry_run:
        [receipt] = check_prepared(actor=view.actor, prepared=prepare())
        if _query_flag(request, "ways"):
            ways = compare_ways_in(view.actor, prepare())
            asked = next((way.start for way in ways if way.code == "as_asked"), None)
            body = _dry_run_body(receipt, links, start_body(asked))
            body["ways"] = [_way_body(way) for way in ways]
            return Response(body)
        [start] = _starts(view, request, prepare())
        return Response(_dry_run_body(receipt, links, start))
    [receipt] = submit_prepared(actor=view.actor, prepared=prepare())
    return Response(_submission_body(receipt, links))


def _starts(view: View, request: Request, prepared: PreparedSubmissions) -> list[StartAnswer | None]:
    """The start of each workflow: computed with `start=true`, none with `start=false`; otherwise what can be told at
    once, because the dry run of a large cluster has to stay quick."""
    if not request.query_params.get("start"):
        starts = estimate_submissions(view.actor, prepared)
    elif _query_flag(request, "start"):
        starts = forecast_submissions(view.actor, prepared)
    else:
        return [None] * len(prepared.items)
    return [start_body(start) for start in starts]


def _way_body(way: WayIn) -> WayAnswer:
    return {
        "code": way.code,
        "text": way.text,
        "pool": way.pool,
        "priority": way.priority,
        "gpus": way.gpus,
        "starts_now": way.starts_now,
        "start": start_body(way.start),
    }


def _dry_run_body(receipt: SubmissionReceipt, links: WorkflowLinks, start: StartAnswer | None) -> SubmissionAnswer:
    body = _receipt_body(receipt, links, logs=None, spec=receipt.rendered)
    body["start"] = start
    return body


def _submission_body(receipt: SubmissionReceipt, links: WorkflowLinks) -> SubmissionAnswer:
    assert receipt.workflow is not None
    return _receipt_body(receipt, links, logs=links.text_url(receipt.workflow.name, "logs"), spec=None)


def _receipt_body(
    receipt: SubmissionReceipt, links: WorkflowLinks, *, logs: str | None, spec: str | None
) -> SubmissionAnswer:
    workflow = receipt.workflow
    page = links.page_url(workflow.pk) if workflow else None
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


def _read_submission_request(view: View, request: Request) -> Submission:
    """The submission of a request: the file in its body, or the one that `workflow_id` names."""
    body = body_object(request)
    old = request.query_params.get("workflow_id")
    parameters: dict[str, Any] = {
        "priority": request.query_params.get("priority"),
        "label": query_list(request, "label"),
        "env_vars": query_list(request, "env_vars"),
        "app_uuid": request.query_params.get("app_uuid"),
        "app_version": request.query_params.get("app_version"),
    }
    if old and body:
        raise _usage_error(
            [Violation("workflow_id", "two_files", "Give a file or the workflow_id of an old one, not both.")]
        )
    if not old and not body:
        raise _usage_error([Violation("file", "missing", "Give a workflow file, or the workflow_id of one on record.")])
    if old:
        reader = BodyReader({"file": ""} | parameters)
        return resubmission(get_visible_workflow(view.actor, old), _reject_faults(_read_submission(reader), reader))
    outer = BodyReader(body)
    outer.reject_unknown_keys(_FILE_KEYS, ())
    reader = BodyReader({key: body.get(key) for key in _FILE_KEYS} | parameters, faults=outer.faults)
    return _reject_faults(_read_submission(reader), reader)


def _reject_faults(submission: Submission, reader: BodyReader) -> Submission:
    reader.raise_faults(error_code=ErrorCode.USAGE)
    return submission


def _usage_error(faults: list[Violation]) -> BadInput:
    return BadInput.of(faults, error_code=ErrorCode.USAGE)  # type: ignore[return-value]


def _read_batch_item(item: ValueReader) -> Submission:
    if not item.is_map:
        item.add_fault("bad_value", "Each workflow is an object with its file.")
        return Submission(file="")
    reader = BodyReader(item.value, item.path, item.faults)
    reader.reject_unknown_keys((*_FILE_KEYS, *_PARAMETER_KEYS), ())
    return _read_submission(reader)


def _read_submission(reader: BodyReader) -> Submission:
    """The submission that an object describes; the reader collects the faults."""
    if not reader.is_given("file"):
        reader.add_fault("file", "missing", "is missing: give the text of the workflow file.")
    template = reader.any_text("uploaded_templated_spec")
    return Submission(
        file=reader.any_text("file"),
        priority=_read_priority(reader),
        set_variables=tuple(reader.read_texts("set_variables")),
        set_string_variables=tuple(reader.read_texts("set_string_variables")),
        template=template,
        already_rendered=bool(template),
        labels=parse_pairs(reader, "label"),
        env_vars=parse_pairs(reader, "env_vars"),
        app_uuid=reader.any_text("app_uuid"),
        app_version=reader.any_text("app_version"),
    )


def _read_priority(reader: BodyReader) -> Priority | None:
    text = reader.any_text("priority")
    priority = {str(each): each for each in Priority}.get(text.upper())
    if text and priority is None:
        reader.add_fault("priority", "bad_query", f"must be one of {', '.join(Priority)}.")
    return priority
