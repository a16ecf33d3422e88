"""Hostile files: each gets a quick answer with one message."""

from __future__ import annotations

import pytest

from scheduling.specs import parse
from scheduling.specs.rendering import render_budget
from scheduling.specs.rendering.file_text import MAX_FILE_BYTES
from tests.unit.specs.sample_files import MINIMAL, assert_consistent, one_task_file

pytestmark = pytest.mark.timeout(300)
"""Seconds, which is room for a busy machine."""

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
DOUBLING = "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = "


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("a" * (MAX_FILE_BYTES + 1), "too_large", id="larger than a file may be"),
        pytest.param("ä" * MAX_FILE_BYTES, "too_large", id="larger in bytes than in characters"),
        pytest.param(LAUGHS, "too_many_values", id="billion laughs"),
        pytest.param("a: &a {x: 1}\nb: {<<: [" + "*a, " * 40_000 + "]}\n", "too_many_values", id="many merges"),
        pytest.param("[" * 100_000, "too_deep", id="deep lists"),
        pytest.param("{a: " * 100_000, "too_deep", id="deep maps"),
        pytest.param("- " * 50_000, "too_deep", id="deep blocks"),
        pytest.param("a: [" + "1," * 300_000 + "]", "too_many_values", id="long list"),
        pytest.param("\n".join(f"k{n}: 1" for n in range(60_000)), "too_many_values", id="many keys"),
        pytest.param("? " * 10_000, "too_deep", id="keys of keys"),
        pytest.param(
            one_task_file(workflow="resources: {default: {gpu: 0x" + "f" * 500_000 + "}}"),
            "bad_number",
            id="a number of 500,000 digits",
        ),
        pytest.param(
            one_task_file(workflow="resources: {default: {gpu: 1" + ":1" * 300_000 + "}}"),
            "bad_number",
            id="a number to the base of sixty",
        ),
        pytest.param(
            one_task_file("exitActions: {FAIL: '" + "1," * 200_000 + "1'}"), "bad_exit_codes", id="many exit codes"
        ),
        pytest.param(
            one_task_file("inputs: [{url: u, regex: '" + "(" * 100_000 + "'}]"), "bad_regex", id="a long pattern"
        ),
        pytest.param(
            one_task_file("inputs: [{url: u, regex: '" + "(" * 400 + ")" * 400 + "'}]"),
            "bad_regex",
            id="a deep pattern",
        ),
        pytest.param("workflow: {name: " + "a-" * 400_000 + "}", "bad_name", id="a long name"),
        pytest.param("workflow: {name: n, labels: {" + "a." * 400 + "/x: y}}", "bad_label", id="a long label"),
        pytest.param(
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}" + MINIMAL,
            "template_too_slow",
            id="loop in a loop",
        ),
        pytest.param("{% for i in range(10**12) %}{% endfor %}" + MINIMAL, "template_too_large", id="range"),
        pytest.param(MINIMAL.replace("hello", "{{ 'x' * 1000000000 }}"), "template_too_large", id="repeated text"),
        pytest.param("{{ 10 ** (10 ** 8) }}" + MINIMAL, "template_too_slow", id="power"),
        pytest.param("{{ '%1000000000d' | format(1) }}" + MINIMAL, "template_too_large", id="format"),
        pytest.param("{{ 'x'.ljust(1000000000) }}" + MINIMAL, "template_too_large", id="ljust"),
        pytest.param(DOUBLING + "ns.x ~ ns.x %}{% endfor %}" + MINIMAL, "template_too_large", id="doubled text"),
        pytest.param(
            "{% for i in range(90000) %}" + "x" * 50 + "{% endfor %}" + MINIMAL, "template_too_large", id="large result"
        ),
        pytest.param(
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}" + MINIMAL,
            "template_too_deep",
            id="macro that calls itself",
        ),
        pytest.param("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}" + MINIMAL, "template_too_deep", id="deep brackets"),
        pytest.param("{% if 1 %}" * 3000 + "{% endif %}" * 3000 + MINIMAL, "template_too_deep", id="deep ifs"),
        pytest.param("{{input:" * 100_000, "template_syntax", id="marks without end"),
        pytest.param("{#" * 300_000, "template_syntax", id="comments without end"),
        pytest.param(
            "".join(f"{{{{ v{n} }}}} " for n in range(600)) + MINIMAL,
            "undefined_variable",
            id="many undefined variables",
        ),
        pytest.param("default-values:\n" * 50_000, "duplicate_key", id="many sections"),
    ],
)
def test_bomb(text: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if code == "template_too_slow":
        monkeypatch.setattr(render_budget, "RENDER_SECONDS", 0.5)
    parsed = parse(text)
    assert_consistent(parsed)
    assert code in {fault.code for fault in parsed.violations}
    assert len(parsed.violations) <= 101


def test_the_next_file_is_read_normally(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(render_budget, "RENDER_SECONDS", 0.5)
        parse("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}")
    assert parse(MINIMAL.replace("hello", "{{ 'after' }}")).spec is not None


def test_many_tasks_with_many_faults() -> None:
    tasks = "".join(f"  - {{name: t{n}, inputs: [{{task: nobody{n}}}], bogus: 1}}\n" for n in range(4000))
    parsed = parse(f"workflow:\n  name: n\n  tasks:\n{tasks}")
    assert parsed.violations[-1].code == "more"


def test_one_list_of_exit_codes_shared_by_thousands() -> None:
    codes = ",".join(str(n) for n in range(0, 500, 2))[:990].rstrip(",")
    text = (
        f"workflow:\n  name: n\n  tasks:\n  - {{name: t, exitActions: &e {{FAIL: '{codes}', COMPLETE: '{codes}'}}}}\n"
    )
    parsed = parse(text + "".join(f"  - {{name: t{n}, exitActions: *e}}\n" for n in range(2000)))
    assert "bad_exit_codes" not in {fault.code for fault in parsed.violations}
    assert parsed.violations[-1].code == "more"
