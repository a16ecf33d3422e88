"""Any text gets an answer: random characters, YAML of our own keys, good files with a change."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.specs import PlatformRules, SpecRules, parse
from tests.unit.specs.sample_files import MINIMAL, assert_consistent
from tests.unit.specs.test_real_world import DISTRIBUTED, PIPELINE, SERVICE
from tests.unit.specs.test_schema import MANY_FAULTS

pytestmark = pytest.mark.timeout(600)

FILES = (MINIMAL, DISTRIBUTED, PIPELINE, SERVICE, MANY_FAULTS)
RULES = SpecRules(platforms={"big": PlatformRules(True, True, ("/dev/shm",))}, default_platform="big")
PIECES = (
    "{{", "}}", "{%", "%}", "{#", "#}", "${#", "{{output}}", "{{host:", "default-values:", "workflow:", "\n", "  ",
    "\t", "- ", ": ", "[", "]", "{", "}", "&a ", "*a", "<<: *a", "!!int ", "|\n", ">-\n", "'", '"', "---\n", "...",
    "%YAML 1.1\n", "\0", "\ud800", "\ufeff", "\x85", "\u2028", "\r", "1e999", ".nan", "0x", "1:1:1", "~", "? ", "# ",
    "name", "tasks", "gpu", "{% raw %}", "{% endraw %}", "{% for i in range(3) %}", "{% endfor %}", "{{ x }}",
    "{{ x.y }}", "{{ 1/0 }}", "\U0001f600", "2024-02-30",
)  # fmt: skip
BOUNDED = settings(max_examples=max(40, settings.default.max_examples // 4), deadline=None, derandomize=True)


def assert_answered(text: str, **more: object) -> None:
    parsed = parse(text, rules=RULES, **more)  # type: ignore[arg-type]
    assert_consistent(parsed)
    if parsed.spec is not None:
        assert parse(parsed.rendered_text, rules=RULES, is_rendered=True).spec == parsed.spec


@BOUNDED
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert_answered(text)


@BOUNDED
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_text_of_marks(text: str) -> None:
    assert_answered(text)


@BOUNDED
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), st.sampled_from(PIECES)), min_size=1, max_size=4),
)
def test_good_files_with_something_changed(text: str, changes: list[tuple[float, int, str]]) -> None:
    for where, removed, put in changes:
        at = int(where * len(text))
        text = text[:at] + put + text[at + removed :]
    assert_answered(text, set_variables=["store=s3://x"])


@BOUNDED
@given(st.lists(st.text(max_size=40), max_size=4), st.lists(st.text(max_size=40), max_size=4))
def test_any_variables(typed: list[str], strings: list[str]) -> None:
    assert_answered(SERVICE, set_variables=typed, set_string_variables=[*strings, f"name={''.join(typed)}"])


WORDS = ("a", "", "1Gi", "1h", "x y", "big", "{{output}}")
KEYS = (
    *("name", "tasks", "groups", "image", "command", "inputs", "task", "url", "resources", "default", "gpu", "files"),
    *("path", "labels", "timeout", "exitActions", "FAIL", "topology", "key", "checkpoint", "credentials"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@BOUNDED
@given(st.dictionaries(st.sampled_from(["name", "tasks", "groups", "resources", "timeout", "labels"]), VALUES))
def test_any_values_in_our_keys(workflow: dict[str, object]) -> None:
    assert_answered(yaml.safe_dump({"workflow": workflow}))
