"""Small parts of pages: the bar of a SubGroup, and the terms of a number."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string

from pools.domain.quota.explanations import ExplanationTerm
from scheduling.domain.gang_tree_rows import GangTreeRow
from scheduling.templatetags.gangs import gang_bar


@pytest.mark.parametrize(
    ("threshold", "count", "size", "optional", "expected"),
    [
        (2, 2, 3, False, [("inside", 2), ("free", 1)]),
        (2, 3, 3, False, [("inside", 2), ("spare", 1)]),
        (2, 1, 3, False, [("inside", 1), ("missing", 1), ("free", 1)]),
        (2, 1, 3, True, [("inside", 1), ("free", 1), ("free", 1)]),
        (1, 0, 1, True, [("free", 1)]),
    ],
)
def test_only_required_members_are_missing_in_the_bar_of_a_sub_group(
    threshold: int, count: int, size: int, optional: bool, expected: list[tuple[str, int]]
) -> None:
    row = GangTreeRow("decode", None, 1, True, threshold, count, size, optional)
    parts = re.findall(r"oa-part--(\w+)\" style=\"flex-grow:(\d+)", gang_bar(row))
    assert [(name, int(amount)) for name, amount in parts] == expected


@pytest.mark.parametrize(
    ("term", "sign"),
    [
        (ExplanationTerm(3, "more"), "+"),
        (ExplanationTerm(3, "less", sign=-1), "−"),
        (ExplanationTerm(0, "less", sign=-1), "−"),
        (ExplanationTerm(0, "more"), "+"),
    ],
)
def test_a_subtracted_term_has_its_minus_even_when_it_is_zero(term: ExplanationTerm, sign: str) -> None:
    page = render_to_string(
        "osmo/parts/quota_terms.html", {"terms": [ExplanationTerm(24, "the quota"), term], "kind": "sum"}
    )
    assert re.findall(r"oa-sign\">(.?)<", page) == ["", sign]
