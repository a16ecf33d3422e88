"""The submission of recorded work again, as new work."""

from __future__ import annotations

from dataclasses import replace

from pools.domain.errors import BadInput, ErrorCode, Fault, Violation
from scheduling.domain.observed.observed_object import ObservedAction, observed_obstacle
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.work.observed_objects import find_observed_object
from scheduling.services.workflows.submission import Submission


def resubmission(original: Workflow, submission: Submission) -> Submission:
    """`submission` with the file of a recorded workflow. If the submission has no labels or variables, those of that
    workflow are used. Raises BadInput for observed work, which has no file."""
    if message := observed_obstacle(original.name, find_observed_object(original), ObservedAction.SUBMIT_AGAIN):
        violation = Violation("workflow", Fault.CLUSTER_OBSERVED, message)
        raise BadInput(message, [violation], error_code=ErrorCode.USAGE, workflow_id=original.name)
    return replace(
        submission,
        file=original.spec,
        template=original.template_spec,
        already_rendered=True,
        labels=original.labels | dict(submission.labels),
        env_vars=original.env_vars | dict(submission.env_vars),
        app_uuid=submission.app_uuid or original.app_uuid,
        app_version=submission.app_version or original.app_version,
        parent=original,
    )


def retry_submission(failed: Workflow) -> Submission:
    """The submission of a failed workflow again, with the same file and priority. Raises BadInput if the workflow did
    not fail (design, O7.1), or was only observed."""
    if not WorkflowStatus(failed.status).is_failed:
        message = f"Workflow {failed.name} is {failed.status}; only failed workflows can be restarted."
        violation = Violation("workflow", Fault.NOT_FAILED, message)
        raise BadInput(message, [violation], error_code=ErrorCode.USAGE, workflow_id=failed.name)
    return resubmission(failed, Submission(file="", priority=Priority(failed.priority)))
