"""YAML itself: files that are not valid, and unusual files that are."""

from __future__ import annotations

import pytest

from scheduling.specs import parse
from tests.unit.specs.sample_files import MINIMAL, one_task_file, read_faults, read_valid, read_valid_task


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"\ufeff{MINIMAL}", id="byte order mark"),
        pytest.param(MINIMAL.replace("\n", "\r\n"), id="Windows line ends"),
        pytest.param(MINIMAL.replace("\n", "\r"), id="old Mac line ends"),
        pytest.param(MINIMAL.rstrip(), id="no line end at the end"),
        pytest.param(f"%YAML 1.1\n---\n{MINIMAL}...\n", id="directive and document marks"),
        pytest.param(f"---\n---\n{MINIMAL}---\n", id="empty documents around"),
        pytest.param(f"{MINIMAL}  # tab in a comment:\t{{\n", id="tab in a comment"),
        pytest.param('{"workflow": {"name": "n", "tasks": [{"name": "t", "image": "i", "command": [1]}]}}', id="JSON"),
        pytest.param(one_task_file("environment: {A: !!str 5, B: ! x}"), id="tags of YAML's own types"),
        pytest.param(f"version: '2'\n{MINIMAL}", id="version as text"),
        pytest.param(f"version: 2.0\n{MINIMAL}", id="version as a fraction"),
        pytest.param(one_task_file("lead:\ninputs:\nfiles:\nenvironment:"), id="keys without values"),
        pytest.param(one_task_file(workflow="pool: p\nbackend: b"), id="pool and backend, which the server overwrites"),
    ],
)  # fmt: skip
def test_read(text: str) -> None:
    assert read_valid(text).tasks[0].name == "t"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (None, "file", "empty"), id="empty"),
        pytest.param(" \n\n", (None, "file", "empty"), id="blank"),
        pytest.param("# nothing\n", (1, "file", "empty"), id="only comments"),
        pytest.param("~\n", (1, "file", "empty"), id="null"),
        pytest.param("- a\n", (1, "file", "wrong_type"), id="a list at the top"),
        pytest.param("words\n", (1, "file", "wrong_type"), id="a word"),
        pytest.param("workflow:\n\tname: n\n", (2, "file", "yaml_syntax"), id="tab as indentation"),
        pytest.param("workflow:\n  name: a: b\n", (2, "file", "yaml_syntax"), id="two colons"),
        pytest.param('workflow:\n  name: "a\n\n\n', (2, "file", "yaml_syntax"), id="open quote: where it opens"),
        pytest.param("a: 1\nb: \0\n", (2, "file", "bad_character"), id="NUL"),
        pytest.param("a: \ud800\n", (1, "file", "bad_character"), id="half a character"),
        pytest.param("a: \x1b[0m\n", (1, "file", "bad_character"), id="escape"),
        pytest.param(one_task_file(r'args: ["a\0"]'), (7, "file", "bad_character"), id="NUL as an escape"),
        pytest.param(f"{MINIMAL}---\n{MINIMAL}", (6, "file", "several_documents"), id="two documents"),
        pytest.param(f"{MINIMAL}  name: other\n", (5, "file", "duplicate_key"), id="one key with two values"),
        pytest.param("workflow: {[a]: b}\n", (1, "file", "bad_key"), id="a list as key"),
        pytest.param("workflow: {name: {{ x }}}\n", (1, "file", "undefined_variable"), id="a template without value"),
        pytest.param("true: 1\n", (1, "file", "bad_key"), id="a key that is true"),
        pytest.param("1: 1\n", (1, "file", "bad_key"), id="a key that is a number"),
        pytest.param("a: *b\n", (1, "file", "unknown_anchor"), id="unknown anchor"),
        pytest.param("a: &a [*a]\n", (1, "file", "unknown_anchor"), id="anchor in itself"),
        pytest.param("a: {<<: 5}\n", (1, "file", "bad_merge"), id="merge of a number"),
        pytest.param("a: !!python/object:os.system x\n", (1, "file", "unknown_tag"), id="Python tag"),
        pytest.param("a: !env HOME\n", (1, "file", "unknown_tag"), id="tag of another tool"),
        pytest.param("a: !!int x\n", (1, "file", "bad_value"), id="wrong tag"),
        pytest.param("a: !!int\n", (1, "file", "bad_value"), id="tag without a value"),
        pytest.param("a: !!bool x\n", (1, "file", "bad_value"), id="wrong tag of a flag"),
        pytest.param("a: !!timestamp x\n", (1, "file", "unknown_tag"), id="tag of a date"),
    ],
)  # fmt: skip
def test_refused(text: str, expected: tuple[int | None, str, str]) -> None:
    assert expected in read_faults(text)


def test_a_text_that_ends_too_early_says_so() -> None:
    (fault,) = parse("{\n").violations
    assert fault.message.endswith(
        "at an empty line or the end of the text. Check the indentation and the quotes around it."
    )


def test_merge_keys_do_not_override() -> None:
    text = (
        "workflow:\n  name: n\n  tasks:\n  - &a {name: t, image: i, command: [sh], environment: &e {A: '1', B: '1'}}\n"
        "  - <<: [*a, {image: other, args: [x]}]\n    name: u\n    environment: {<<: *e, B: '2'}\n"
    )
    first, second = read_valid(text).tasks
    assert (second.image, second.args) == ("i", ("x",))
    assert (first.environment, second.environment) == ({"A": "1", "B": "1"}, {"A": "1", "B": "2"})


def test_text_stays_as_written() -> None:
    task = read_valid_task(
        "environment: {A: yes, B: 1.10, C: 2024-01-02, D: 0o17, E: 1:30, F: , G: 'null', H: 2024-13-45}"
        "\nargs: [007, off]"
    )
    assert task.environment == {
        "A": "yes", "B": "1.10", "C": "2024-01-02", "D": "0o17", "E": "1:30", "F": "", "G": "null", "H": "2024-13-45",
    }  # fmt: skip
    assert task.args == ("007", "off")


def test_passed_on_values_can_be_stored_as_json() -> None:
    task = read_valid_task("inputs: [{dataset: {name: d, metadata: [2024-01-02, .nan, .inf]}}]")
    assert task.inputs[0]["dataset"]["metadata"] == ["2024-01-02", ".nan", ".inf"]


def test_the_message_shows_the_broken_line() -> None:
    (fault,) = parse("workflow:\n  name: n\n bad indent\n").violations
    assert '"bad indent"' in fault.message
