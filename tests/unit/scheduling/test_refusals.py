"""The errors of refused submissions: their messages, paths and codes."""

from __future__ import annotations

import pytest

from pools.domain.errors import ErrorCode, Violation
from scheduling.services.workflows.refusals import MAX_DETAILS, batch_refusal, file_refusal, worker_cap_refusal

IMAGE = Violation("image", "missing", "The image is missing.", line=3)
NAME = Violation("name", "bad_name", "The name is not valid.")
CAP = Violation("gpu", "single.max", "The worker is too large.")
PLATFORM = Violation("platform", "no_platform", "No platform has it.")


def test_one_file():
    assert file_refusal([IMAGE]).message == "The workflow file is not valid: line 3, image: The image is missing."
    both = file_refusal([NAME, IMAGE])
    assert both.message == "The workflow file is not valid: name: The name is not valid. (1 more in details)"
    assert both.details == (NAME, IMAGE)


@pytest.mark.parametrize(("line", "place"), [(7, "line 7: "), (None, "")])
def test_a_path_that_the_message_begins_with_is_said_once(line, place):
    fault = Violation("gpu", "bad_number", "gpu must be a whole number.", line=line)
    assert file_refusal([fault]).message == f"The workflow file is not valid: {place}gpu must be a whole number."


def test_only_faults_that_no_correction_removes_are_about_resources():
    assert file_refusal([PLATFORM]).error_code == ErrorCode.RESOURCE
    assert file_refusal([PLATFORM, NAME]).error_code == ErrorCode.USAGE


def test_workers_above_a_cap():
    alone = worker_cap_refusal([[CAP, NAME]])
    assert (alone.message, alone.details, alone.error_code) == (CAP.message, (CAP, NAME), ErrorCode.RESOURCE)
    several = worker_cap_refusal([[], [CAP], [CAP]])
    assert [fault.path for fault in several.details] == ["workflows[1].gpu", "workflows[2].gpu"]
    assert several.error_code == ErrorCode.RESOURCE


def test_several_files():
    found = batch_refusal([[NAME], [], [IMAGE, NAME]])
    assert found.message == (
        "2 of 3 workflows cannot be submitted, so none was: workflows[0].name: The name is not valid."
    )
    assert [fault.path for fault in found.details] == ["workflows[0].name", "workflows[2].image", "workflows[2].name"]
    assert batch_refusal([[], [PLATFORM]]).error_code == ErrorCode.RESOURCE


def test_workflows_behind_a_slow_template_are_counted():
    last = [batch_refusal([[NAME]], unread=unread).details[-1].message for unread in (1, 3)]
    assert [text.partition(" not read")[0] for text in last] == [
        "The workflow after it was",
        "The 3 workflows after it were",
    ]
    assert "1 of 4 workflows cannot be submitted" in batch_refusal([[NAME]], unread=3).message
    assert len(batch_refusal([[NAME]]).details) == 1


def test_details_are_bounded():
    assert len(batch_refusal([[NAME] * MAX_DETAILS]).details) == MAX_DETAILS
    more = batch_refusal([[NAME] * MAX_DETAILS, [NAME, NAME]]).details
    assert (len(more), more[-1].code) == (MAX_DETAILS + 1, "more")
    assert more[-1].message.startswith("2 more faults are not listed.")
