"""The codes of the reasons why work waits: one enum, which the product and docs/waiting.md repeat exactly."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scheduling.domain.reason_codes import ReasonCode

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "scheduling/domain/reason_codes.py"
OTHER_WORDS = {"over_quota", "cycle", "gpu_quota", "elsewhere", "not_ready"}
"""Codes that are also words of something else: columns, problems, states of a lease."""


def test_the_table_of_the_documentation_is_the_enum() -> None:
    section = (ROOT / "docs/waiting.md").read_text(encoding="utf-8").partition("\n## Why\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)[1:]  # without the head
    assert [(code, re.sub(r"\[(.*?)\]\(.*?\)", r"\1", meaning)) for code, meaning in rows] == [
        (str(code), code.meaning) for code in ReasonCode
    ]


def test_no_module_spells_a_code() -> None:
    codes = set(map(str, ReasonCode)) - OTHER_WORDS
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in (ROOT / "scheduling").rglob("*.py")
        if path != HOME and "migrations" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in codes
    ]
    assert found == []
