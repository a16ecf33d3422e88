"""Bodies and filters of the calls about work, for the OpenAPI file."""

from __future__ import annotations

from dataclasses import dataclass

from pools.api.changes import properties_of
from pools.api.schema import ANY_VALUE, array_of, object_with
from pools.domain.changes.command import body_fields
from pools.domain.questions import parameter
from pools.domain.structured_input.declared_values import BOOLEAN, query_fields
from scheduling.domain.changes.submissions import SubmitWorkflow
from scheduling.domain.priorities import Priority

PRIORITY = {"type": "string", "enum": [str(each) for each in Priority]}
_SUBMITTED = properties_of(body_fields(SubmitWorkflow))
_ACCOMPANYING = {key: about for key, about in query_fields(SubmitWorkflow).items() if key != "workflow_id"}
BATCH_ITEM_FIELDS = body_fields(SubmitWorkflow) | _ACCOMPANYING
"""In a batch, what accompanies a file is in the same object."""
SUBMISSION_BODY = object_with(_SUBMITTED, required=[])
BATCH_ITEM = object_with(properties_of(BATCH_ITEM_FIELDS), required=["file"])
BATCH_SUBMISSION_BODY = object_with(
    {
        "workflows": {**array_of(BATCH_ITEM), "minItems": 1, "maxItems": 500},
        "description": ANY_VALUE,
        "tags": ANY_VALUE,
    },
    required=["workflows"],
)
NOTES_BODY = object_with({"description": ANY_VALUE, "tags": ANY_VALUE}, required=[])


@dataclass(frozen=True, slots=True)
class BatchQuery:
    """How a batch is submitted: really, or as a question."""

    dry_run: bool = parameter(BOOLEAN, "Check the file and answer the rendered file; submit nothing.", default=False)
    start: bool | None = parameter(
        BOOLEAN,
        "With dry_run: when the work would start. True: it is computed, in up to seconds on a large cluster. False: "
        "it is left out. Not given: computed on a cluster of at most 64 nodes and 100 live workflows; on a larger one "
        "it is the kept forecast of the last gang before it in its queue, or null.",
    )


@dataclass(frozen=True, slots=True)
class SubmissionQuery(BatchQuery):
    """How one workflow is submitted."""

    ways: bool = parameter(
        BOOLEAN, "With dry_run: also list other ways to start. Takes up to some seconds.", default=False
    )
    validation_only: bool = parameter(BOOLEAN, "Check the file and answer a message; submit nothing.", default=False)
