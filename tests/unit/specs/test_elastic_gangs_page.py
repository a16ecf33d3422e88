"""docs/elastic-gangs.md is true: its manifests are accepted, its table is complete, its tree is the real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmo_admin.cli.text.gang_table import gang_table
from scheduling.domain.gang import tree_from_json
from scheduling.domain.gang_tree_rows import gang_body, gang_tree_rows
from scheduling.domain.priorities import Priority
from scheduling.specs import parse
from scheduling.specs.pod_annotations import KNOWN_ANNOTATIONS

PAGE = (Path(__file__).parents[3] / "docs" / "elastic-gangs.md").read_text()
MANIFESTS = dict(re.findall(r"<!-- manifest: ([\w-]+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize(
    ("name", "gpus", "pods", "priority"),
    [("inference-service", 24, 32, None), ("training-job", 64, 10, Priority.LOW)],
)
def test_the_manifests_are_accepted_without_warnings(
    name: str, gpus: int, pods: int, priority: Priority | None
) -> None:
    parsed = parse(MANIFESTS[name])
    assert (parsed.violations, parsed.warnings) == ((), ())
    assert parsed.spec is not None
    assert (parsed.spec.name, parsed.spec.largest_gang_gpus, len(parsed.spec.tasks)) == (name, gpus, pods)
    assert parsed.spec.priority is priority


def test_the_table_has_every_annotation() -> None:
    assert tuple(sorted(re.findall(r"^\| `(osmo/[\w-]+)`", PAGE, re.MULTILINE))) == tuple(sorted(KNOWN_ANNOTATIONS))


def test_the_tree_equals_the_documented_one() -> None:
    parsed = parse(MANIFESTS["inference-service"])
    assert parsed.spec is not None
    (gang,) = parsed.spec.groups
    tree = tree_from_json(gang.gang, 0)
    rows = gang_tree_rows(tree, gang.name, {1: 8, 2: 8, 4: 8}, dict.fromkeys(range(1, 5), 8))
    drawn = gang_table({"name": gang.name, "gang": gang_body(rows)})
    assert f"```text\n{drawn}\n```" in PAGE
