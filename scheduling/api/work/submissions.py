"""Submissions: one workflow, several workflows at once, and a failed workflow again (design, O7.1, A1)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal, NotRequired, TypedDict, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import describe_change, require_change
from pools.api.questions import parameters_of, read_query
from pools.api.request_parsing import BodyReader, body_object
from pools.api.schema import describe_operation
from pools.api.views import View
from pools.domain.changes.command import body_fields
from pools.domain.errors import BadInput, ErrorCode, Fault, Violation
from pools.domain.people.roles import Actor
from pools.domain.structured_input import ValueReader
from pools.domain.structured_input.declared_values import read_fields
from scheduling.api.work.pending_queue import StartAnswer, start_body
from scheduling.api.work.work_schemas import (
    BATCH_ITEM_FIELDS,
    BATCH_SUBMISSION_BODY,
    NOTES_BODY,
    SUBMISSION_BODY,
    BatchQuery,
    SubmissionQuery,
)
from scheduling.api.work.workflow_bodies import WorkflowLinks
from scheduling.domain.changes.submissions import RestartWorkflow, SubmitWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.starts.question import (
    WayIn,
    compare_ways_in,
    starts_if_submitted,
)
from scheduling.selectors.work.workflows import get_visible_workflow, queue_names_of
from scheduling.services.workflows.resubmission import resubmission, retry_submission
from scheduling.services.workflows.submission import (
    PreparedSubmissions,
    Submission,
    SubmissionReceipt,
    prepare_submissions,
    submit_prepared,
)

MAX_BATCH = 500
_VALID_MESSAGE = "The workflow file is valid and pool {pool} would accept it."
QueryT = TypeVar("QueryT", bound=BatchQuery)
_FILE_FIELDS = body_fields(SubmitWorkflow)
_LISTS = ("label", "env_vars")
_QUERY_FIELDS = [key for key in BATCH_ITEM_FIELDS if key not in _FILE_FIELDS]


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
    ways: NotRequired[Annotated[list[WayAnswer], "Of a dry run with `ways`: other ways to start, the earliest first."]]


class BatchSubmissionAnswer(TypedDict):
    """The workflows of a batch, in its order."""

    workflows: list[SubmissionAnswer]


class WorkflowSubmission(View):
    """The submission of one workflow: a file in the body, or the file of the recorded workflow `workflow_id`."""

    @describe_change(
        SubmitWorkflow, query_parameters=parameters_of(SubmissionQuery), body=SUBMISSION_BODY, answer=SubmissionAnswer
    )
    def post(self, request: Request, pool: str) -> Response:
        return _submit_or_check(self, pool, _read_submission_request(self, request))


class WorkflowBatchSubmission(View):
    """The submission of up to 500 workflows, all or none, with one lock and one commit."""

    @describe_operation(
        "Submit up to 500 workflows, all or none.",
        query_parameters=parameters_of(BatchQuery),
        body=BATCH_SUBMISSION_BODY,
        answer=BatchSubmissionAnswer,
    )
    def post(self, request: Request, pool: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("workflows",))
        items = reader.body.get("workflows")
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
            reader.add_fault(
                "workflows", Fault.BAD_VALUE, f"must be a list of 1 to {MAX_BATCH} objects, each with its file."
            )
            reader.raise_faults(error_code=ErrorCode.USAGE)
        submissions = [_read_batch_item(item) for item in reader.field("workflows").list_items("objects")]
        reader.raise_faults(error_code=ErrorCode.USAGE)

        links, query = WorkflowLinks(request), _read_query(BatchQuery, request)
        prepare = partial(prepare_submissions, actor=self.actor, pool=pool, submissions=submissions)
        if query.dry_run:
            prepared = prepare()
            checked = submit_prepared(actor=self.actor, prepared=prepared, is_dry_run=True)
            starts = _starts(self.actor, query, prepared)
            bodies = [_dry_run_body(receipt, links, start) for receipt, start in zip(checked, starts, strict=True)]
            return Response(BatchSubmissionAnswer(workflows=bodies))

        def submit(prepared: PreparedSubmissions) -> Response:
            receipts = submit_prepared(actor=self.actor, prepared=prepared)
            bodies = [_submission_body(receipt, links) for receipt in receipts]
            return Response(BatchSubmissionAnswer(workflows=bodies))

        return self.run_prepared_once(prepare, submit, require=partial(_require_submit, self, pool))


class WorkflowRestart(View):
    """The submission of a failed workflow again, as a new workflow with the same priority."""

    @describe_change(
        RestartWorkflow, query_parameters=parameters_of(SubmissionQuery), body=NOTES_BODY, answer=SubmissionAnswer
    )
    def post(self, request: Request, pool: str, workflow: str) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(())
        reader.raise_faults(error_code=ErrorCode.USAGE)
        return _submit_or_check(self, pool, retry_submission(get_visible_workflow(self.actor, workflow)))


def _require_submit(view: View, pool: str) -> None:
    require_change(view.actor, SubmitWorkflow, {"pool": pool})


def _submit_or_check(view: View, pool: str, submission: Submission) -> Response:
    query, links = _read_query(SubmissionQuery, view.request), WorkflowLinks(view.request)
    prepare = partial(prepare_submissions, actor=view.actor, pool=pool, submissions=[submission])
    if query.validation_only or query.dry_run:
        return Response(_check(view.actor, query, prepare(), links))

    def submit(prepared: PreparedSubmissions) -> Response:
        [receipt] = submit_prepared(actor=view.actor, prepared=prepared)
        return Response(_submission_body(receipt, links))

    return view.run_prepared_once(prepare, submit, require=partial(_require_submit, view, pool))


def _check(
    actor: Actor, query: SubmissionQuery, prepared: PreparedSubmissions, links: WorkflowLinks
) -> SubmissionAnswer:
    """The answer of a dry run or of a validation."""
    [receipt] = submit_prepared(actor=actor, prepared=prepared, is_dry_run=True)
    if query.validation_only:
        message = _VALID_MESSAGE.format(pool=receipt.pool.name)
        spec = receipt.rendered if query.dry_run else None  # `workflow validate` reads it
        return _receipt_body(receipt, links, logs=message, spec=spec)
    if not query.ways:
        [start] = _starts(actor, query, prepared)
        return _dry_run_body(receipt, links, start)
    ways = compare_ways_in(actor, prepared)
    as_written = next((way.start for way in ways if way.code == "as_asked"), None)
    body = _dry_run_body(receipt, links, start_body(as_written))
    body["ways"] = [_way_body(way) for way in ways]
    return body


def _read_query(kind: type[QueryT], request: Request) -> QueryT:
    """The question of a request; a fault is one of a submission, which OSMO's clients word as such."""
    try:
        return read_query(kind, request)
    except BadInput as refusal:
        raise _usage_error(refusal.violations) from None


def _starts(actor: Actor, query: BatchQuery, prepared: PreparedSubmissions) -> list[StartAnswer | None]:
    """The start of each workflow: computed with `start=true`, none with `start=false`; otherwise what is known at
    once, because the dry run of a large cluster has to stay quick."""
    if query.start is False:
        return [None] * len(prepared.items)
    starts = starts_if_submitted(actor, prepared, at_once=not query.start)
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
    body, query = body_object(request), request.query_params
    old = query.get("workflow_id")
    if old and body:
        raise _usage_error(
            [Violation("workflow_id", Fault.TWO_FILES, "Give a file or the workflow_id of an old one, not both.")]
        )
    if not old and not body:
        raise _usage_error(
            [Violation("file", Fault.MISSING, "Give a workflow file, or the workflow_id of one on record.")]
        )
    outer = BodyReader(body)
    outer.reject_unknown_keys(_FILE_FIELDS, ())
    texts = {key: query.get(key) for key in _QUERY_FIELDS}
    lists = {key: [text for text in query.getlist(key) if text] for key in _LISTS}
    reader = BodyReader(({"file": ""} if old else body) | texts | lists, faults=outer.faults)
    submission = _read_submission(reader)
    reader.raise_faults(error_code=ErrorCode.USAGE)
    return resubmission(get_visible_workflow(view.actor, old), submission) if old else submission


def _usage_error(faults: Iterable[Violation]) -> BadInput:
    return BadInput.of(faults, error_code=ErrorCode.USAGE)  # type: ignore[return-value]


def _read_batch_item(item: ValueReader) -> Submission:
    if not item.is_map:
        item.add_fault(Fault.BAD_VALUE, "Each workflow is an object with its file.")
        return Submission(file="")
    reader = BodyReader(item.value, item.path, item.faults)
    reader.reject_unknown_keys(BATCH_ITEM_FIELDS, ())
    return _read_submission(reader)


def _read_submission(reader: BodyReader) -> Submission:
    """The submission that an object describes; the reader collects the faults."""
    found = read_fields(reader, BATCH_ITEM_FIELDS)
    template = found.get("uploaded_templated_spec", "")
    return Submission(
        file=found.get("file", ""),
        priority=found.get("priority"),
        set_variables=tuple(found.get("set_variables", ())),
        set_string_variables=tuple(found.get("set_string_variables", ())),
        template=template,
        already_rendered=bool(template),
        labels=found.get("label", {}),
        env_vars=found.get("env_vars", {}),
        app_uuid=found.get("app_uuid", ""),
        app_version=found.get("app_version", ""),
    )
