"""Files as KAI's documentation has them: a PodGroup with its Queue, its Topology and its pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.specs import parse

QUEUE = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\nspec: {resources: {}}\n"
POD_GROUP = (
    "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: p}\n"
    "spec: {minMember: 2, priorityClassName: train}\n"
)
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {}\n"


def test_a_submission_takes_the_one_pod_group_and_names_the_rest() -> None:
    parsed = parse(f"---\n{QUEUE}---\n{POD_GROUP}---\n{JOB}---\n")
    assert parsed.violations == ()
    assert parsed.spec is not None
    assert parsed.spec.name == "p"
    assert any("2 other objects (Queue, Job)" in warning for warning in parsed.warnings)


def test_two_pod_groups_are_two_submissions() -> None:
    (fault,) = parse(f"{POD_GROUP}---\n{POD_GROUP}").violations
    assert (fault.code, fault.line) == ("several_documents", 6)


def test_other_documents_without_a_kind_are_no_manifest() -> None:
    assert [fault.code for fault in parse(f"{POD_GROUP}---\na: 1\n").violations] == ["several_documents"]


@pytest.mark.parametrize(
    ("text", "code", "skipped"),
    [
        (f"{QUEUE}---\n{POD_GROUP}---\n{JOB}", 0, "1 Queue, 1 Job"),
        (QUEUE, 0, "1 Queue"),
        (f"{QUEUE}---\n{POD_GROUP.replace('2, ', '-2, ')}", 1, "1 Queue"),
        (POD_GROUP.replace("PodGroup", "podgroup"), 1, ""),
        (POD_GROUP.replace("run.ai/v2alpha2", "volcano.sh/v1beta1"), 0, "1 PodGroup of scheduling.volcano.sh"),
    ],
)
def test_a_validation_skips_and_counts_other_kinds(tmp_path: Path, text: str, code: int, skipped: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    answer = CliRunner().invoke(app, ["podgroup", "validate", str(file)])
    assert answer.exit_code == code, answer.output
    assert (f"not PodGroups: {skipped}." in answer.stderr) is bool(skipped)
