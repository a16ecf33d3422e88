"""The field reader and the YAML composer, which workflow files, scenarios and request bodies share."""

from __future__ import annotations

from typing import Any

import pytest

from pools.api.request_parsing import BodyReader
from pools.domain.errors import BadInput
from pools.domain.structured_input import Faults, FieldReader, ValueReader
from scheduling.scenario.fields import RecordReader, ScenarioValue
from scheduling.specs.yaml_cursor import YamlCursor
from scheduling.structured_yaml.node_reader import MAX_DEPTH, read_yaml
from scheduling.structured_yaml.value_reader import MAX_LEVELS, read_documents

TEXT = "count: x\nflag: 7\nlist: {}\nother: 1\n"


def cursor(text: str, faults: Faults) -> YamlCursor:
    node = read_yaml(text, faults, path="file", line_of=lambda line: line + 1)
    assert node is not None
    return YamlCursor(node, "", node.line, faults)


def read(reader: ValueReader) -> None:
    """Read three values of the wrong type, together with an unknown key."""
    fields = reader.known_fields(("count", "flag", "list", "needed"), required=("needed",))
    assert (fields["count"].whole_number(5), fields["flag"].boolean(), fields["list"].list_items("words")) == (
        5,
        False,
        [],
    )


@pytest.mark.parametrize("kind", [ValueReader, ScenarioValue, YamlCursor])
def test_every_dialect_reports_the_same_faults_at_the_same_paths(kind: type[ValueReader]) -> None:
    faults = Faults()
    value: dict[str, Any] = {"count": "x", "flag": 7, "list": {}, "other": 1}
    read(cursor(TEXT, faults) if kind is YamlCursor else kind(value, "", None, faults))
    assert [fault.path for fault in faults.violations] == ["other", "needed", "count", "flag", "list"]
    assert [fault.code for fault in faults.violations][:2] == ["unknown_key", "missing"]
    for fault in faults.violations[2:]:
        assert f"{fault.path} must be " in fault.message
    assert [fault.line for fault in faults.violations] == ([4, 1, 1, 2, 3] if kind is YamlCursor else [None] * 5)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("---\n---\na: 1\n---\n", [{"a": 1}]),
        ("a: 1\n---\n# end\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\n---\n", [None]),
    ],
)
def test_an_empty_document_beside_others_is_no_document(text: str, values: list[Any]) -> None:
    """Templates leave `---` before the first and after the last; workflow files have always been read so."""
    assert [document.value for document in read_documents(text)] == values
    assert [document.value for document in read_documents(text, record_lines=True)] == values


def test_numbers_outside_their_bounds_have_codes_of_their_own() -> None:
    fields = FieldReader({"low": -2, "high": 9}, "pool", faults := Faults())
    assert fields.whole_number("low", 0, minimum=-1, maximum=5, below_code="negative_quota") == 0
    assert fields.whole_number("high", 0, minimum=-1, maximum=5) == 0
    assert fields.whole_number("absent", 3, minimum=-1, maximum=5) == 3
    assert [(fault.path, fault.code) for fault in faults.violations] == [
        ("pool.low", "negative_quota"),
        ("pool.high", "too_large"),
    ]


def test_a_full_list_counts_further_faults() -> None:
    faults = Faults(maximum=2)
    for number in (1, 1, 2, 3):
        faults.add(f"key{number}", "bad_value", "message")
    assert ([fault.path for fault in faults.violations], faults.unlisted_count) == (["key1", "key2"], 1)


def test_unknown_keys_beyond_a_full_list_are_counted_too() -> None:
    faults = Faults(maximum=2)
    ValueReader({f"k{number}": 1 for number in range(5)}, "", None, faults).known_fields(["name"])
    FieldReader({"other": 1}, "", faults).reject_unknown_keys(["name"])
    assert (len(faults.violations), faults.unlisted_count) == (2, 4)


def test_what_an_error_names_ends_with_the_word_that_there_is_more() -> None:
    faults = Faults()
    FieldReader({f"k{number}": 1 for number in range(2_000)}, "", faults).reject_unknown_keys(["name"])
    refused = BadInput.of(faults.violations)
    assert (len(refused.details), refused.details[-1].code, faults.unlisted_count) == (1000, "more", 1001)


def test_a_body_raises_all_its_faults_at_once() -> None:
    reader = BodyReader({"id": 1, "roles": "admin", "extra": 1, "description": "why", "tags": []})
    reader.reject_unknown_keys(("id", "roles"))
    assert (reader.any_text("id"), reader.read_texts("roles")) == ("", [])
    with pytest.raises(BadInput) as refused:
        reader.raise_faults()
    assert [fault.path for fault in refused.value.violations] == ["extra", "id", "roles"]


def test_a_record_reads_exact_numbers_and_repeated_keys() -> None:
    (document,) = read_documents("weight: 0.1\nweight: 0.2\n")
    record = RecordReader(document.value, "", faults := Faults(), "a queue")
    assert float(record.number("weight", 1)) == 0.2
    assert [(fault.path, fault.code) for fault in faults.violations] == [("weight", "duplicate_name")]


@pytest.mark.parametrize(("levels", "is_read"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_nodes_are_bounded_in_depth(levels: int, is_read: bool) -> None:
    text = "[" * levels + "x" + "]" * levels
    node = read_yaml(text, faults := Faults(), path="file", line_of=lambda line: line + 1)
    assert (node is not None, [fault.code for fault in faults.violations]) == (is_read, [] if is_read else ["too_deep"])


@pytest.mark.parametrize(("levels", "is_read"), [(MAX_LEVELS, True), (MAX_LEVELS + 1, False)])
def test_values_are_bounded_in_depth(levels: int, is_read: bool) -> None:
    (document,) = read_documents("- " * levels + "x")
    assert (document.faults == []) is is_read


def test_an_alias_counts_as_often_as_its_values() -> None:
    text = "a: &a [" + "x, " * 1000 + "]\nb: [" + "*a, " * 60 + "]\n"
    assert read_yaml(text, faults := Faults(), path="file", line_of=lambda line: line + 1) is None
    assert [(fault.code, fault.line) for fault in faults.violations] == [("too_many_values", 2)]
    (document,) = read_documents(text)
    assert document.faults == []
    assert document.value["b"][59] is document.value["a"]
