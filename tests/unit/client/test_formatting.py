"""Tables, times and effects: functions without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from osmo_admin.cli.base import tables, times
from osmo_admin.cli.base.client_errors import ClientError, detail_location
from osmo_admin.cli.base.list_options import OptionGrammar, repeat_list_options
from osmo_admin.cli.config_difference import UNCHANGED, find_changes
from osmo_admin.cli.text.effect_text import change_lines, effect_text, print_effect


def test_a_table_is_as_wide_as_its_widest_cell_and_has_no_spaces_at_line_ends():
    table = tables.build_table(("A", "Long name"), [("x" * 5, None), ("日本", "y")], minimum=(3,), total=("", 7))
    assert table.text().splitlines() == [
        "A      Long name",
        "-----  ---------",
        "xxxxx  -",
        "日本   y",
        "-----  ---------",
        "       7",
    ]


WIDE_TABLE = tables.build_table(
    ("Name", "State", "Message"),
    [("a-long-name-of-an-object", "RUNNING", "words " * 10), ("b", None, "日本" * 12)],
    total=("", "", 7),
)


@pytest.mark.parametrize("width", range(46, 110, 7))
def test_a_table_fits_the_terminal_and_keeps_the_first_column(width):
    lines = WIDE_TABLE.text(width).splitlines()
    assert max(map(tables.display_width, lines)) <= width
    assert lines[2].startswith("a-long-name-of-an-object  ")
    assert WIDE_TABLE.text(200) == WIDE_TABLE.text()
    if width < 80:
        assert "…" in lines[2]
        assert tables.display_width(lines[1]) == width, "the width is used"


def test_a_table_that_cannot_fit_becomes_a_block_for_each_row():
    assert WIDE_TABLE.text(30).split("\n\n") == [
        f"Name    : a-long-name-of-an-object\nState   : RUNNING\nMessage : {'words ' * 10}".strip(),
        f"Name    : b\nState   : -\nMessage : {'日本' * 12}",
        "Sums\nMessage : 7",
    ]


def test_a_table_does_without_spare_columns_before_it_becomes_blocks():
    table = tables.build_table(
        ("Name", "Kind", "Bar", "Used", "Lost"),
        [("│ vision", "pool", tables.PreformattedCell("█" * 16), 7, 3)],
        spare=("Lost", "Used", "Bar"), total=("Sum", "", "", 7, 3),
    )  # fmt: skip
    assert table.text(49) == table.text()
    assert table.text(43).splitlines() == [
        "Name      Kind  Bar               Used",
        "--------  ----  ----------------  ----",
        "│ vision  pool  ████████████████  7",
        "--------  ----  ----------------  ----",
        "Sum                               7",
        "",
        "Left out: Lost. -o wide has all.",
    ]
    assert table.text(32).splitlines()[0] == "Name      Kind  Bar", "a drawing is not cut"
    assert table.text(31).splitlines()[-2:] == ["Left out: Bar, Used, Lost. -o", "wide has all."]
    assert table.text(13).splitlines()[0] == "Name : │ vision"


def test_a_sentence_is_wrapped_and_not_cut():
    table = tables.build_table(
        ("ID", "News"), [(7, "urgent-1 took eight GPUs back that you borrowed")], sentences={"News"}
    )
    assert table.text(28).splitlines()[2:] == ["7   urgent-1 took eight GPUs", "    back that you borrowed"]
    assert table.text(27).startswith("ID   : 7")


def test_csv_has_header_and_rows_and_no_lines_of_a_tree():
    table = tables.build_table(("Pool", "Note"), [("├─ a", 'says "x", y'), ("b", None), ("c", -5)], total=("", 9))
    assert table.csv() == 'pool,note\na,"says ""x"", y"\nb,\nc,-5'
    assert tables.Facts([("A", 1), ("B", None)]).csv() == "field,value\nA,1\nB,"


@pytest.mark.parametrize("cell", ["=1+1", "+cmd", "-x", "@SUM(A1)"])
def test_csv_holds_no_formula(cell):
    assert tables.build_table(("A",), [(cell,)]).csv() == f"a\n'{cell}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        ({}, "-"),
        (0, "0"),
        (False, "False"),
        ("a\n b\tc", "a b c"),
        (["a", None], "a, -"),
        ({"b": 1, "a": [2]}, "a=2, b=1"),
        ("\x1b[2J", "�[2J"),
        ("\u202eevil", "�evil"),
        ("\ud800", "�"),
    ],
)
def test_a_cell_is_one_line_that_cannot_harm_the_terminal(value, text):
    assert tables.format_cell(value) == text


NOW = datetime(2026, 11, 20, 12, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("2026-11-01", "2026-11-01T00:00:00"),
        ("2026-11-01T10:30", "2026-11-01T10:30:00"),
        ("2026-11-01 10:30:00+02:00", "2026-11-01T08:30:00"),
        ("2026-11-01T10:30Z", "2026-11-01T10:30:00"),
        ("90m", "2026-11-20T10:30:00"),
        ("12h", "2026-11-20T00:00:00"),
        ("7d", "2026-11-13T12:00:00"),
        ("2w", "2026-11-06T12:00:00"),
    ],
)
def test_typed_times_become_naive_utc(home, typed, sent):
    assert times.parse_time(typed, now=NOW) == sent


def test_a_length_of_time_is_after_now_where_a_change_has_an_end(home):
    assert times.parse_time("90m", now=NOW, is_ahead=True) == "2026-11-20T13:30:00"
    assert times.parse_time("2w", now=NOW, is_ahead=True) == "2026-12-04T12:00:00"
    with pytest.raises(ClientError, match="from now: 90m"):
        times.parse_time("friday", is_ahead=True)


@pytest.mark.parametrize(
    "typed",
    ["yesterday", "", "7y", "2026-13-01", "-1d", "0001-01-01T00:00+23:00", "9999-12-31T23:59-05:00"],
)
def test_text_that_is_not_a_time_is_refused(typed):
    with pytest.raises(ClientError, match="is not a time"):
        times.parse_time(typed)


def test_local_time_is_local(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert times.format_local_time("2026-11-20T10:00:00.123") == "2026-11-20 11:00:00 CET"
    assert times.parse_time("2026-07-01") == "2026-06-30T22:00:00"
    assert times.parse_time("2026-07-01", in_utc=True) == "2026-07-01T00:00:00"
    with pytest.raises(ClientError, match=r"no such local time.*\(\+01:00 or \+02:00\)"):
        times.parse_time("2027-03-28T02:30")
    with pytest.raises(ClientError, match=r"comes twice.*\(\+02:00 or \+01:00\)"):
        times.parse_time("2027-10-31T02:30")
    assert times.parse_time("2027-10-31T02:30+01:00") == "2027-10-31T01:30:00"
    assert times.parse_time("2027-03-28T03:00") == "2027-03-28T01:00:00"
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert times.format_local_time(None) is None
    assert times.format_local_time("soon") == "soon"


@pytest.mark.parametrize(
    ("current", "wanted", "sent"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, UNCHANGED),
        ({"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [2, 1]}, {"a": [2, 1]}),
        ({"a": 1}, {"a": 1, "n": {}}, {"n": {}}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {"a": None}, UNCHANGED),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({}, {}, UNCHANGED),
    ],
)
def test_only_differences_are_sent(current, wanted, sent):
    assert find_changes(current, wanted) == sent


def test_changes_are_listed_by_path():
    assert change_lines({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "d": None}) == ["a.b: 1 → 3", "c: 2 → -"]
    assert change_lines(None, {"a": {"b": 1}, "c": 2}) == ["a.b: - → 1", "c: - → 2"]
    assert change_lines({"a": {"b": 1}}, {"a": None}) == ["a.b: 1 → -"]
    assert change_lines(None, 5) == ["value: - → 5"]


GRAMMAR = OptionGrammar(frozenset({"-p", "--set"}), frozenset({"--set"}), frozenset({"-o"}), 1)


@pytest.mark.parametrize(
    ("words", "repeated"),
    [
        ("F -p a b", "F -p a -p b"),
        ("-p a F", "-p a F"),
        ("--set a=1 b=2 F", "--set a=1 --set b=2 F"),
        ("--set a=1 F --set b=2 c=3", "--set a=1 F --set b=2 --set c=3"),
        ("-o json F -p a b", "-o json F -p a -p b"),
        ("F -p a -x -p b", "F -p a -x -p b"),
        ("F -p a -- b c", "F -p a -- b c"),
        ("--set=a=1 b=2", "--set=a=1 b=2"),
        ("-p", "-p"),
        ("- -p a b", "- -p a -p b"),
    ],
)
def test_list_options_are_repeated_if_a_word_is_not_an_argument(words, repeated):
    assert repeat_list_options(words.split(), GRAMMAR) == repeated.split()


def test_a_message_that_begins_with_its_path_is_shown_without_a_second_path() -> None:
    detail = {"path": "quota", "message": "quota must be a number, not x.", "line": 3}
    assert detail_location(detail) == "line 3: "
    assert detail_location({**detail, "message": "quota: give a number."}) == "line 3: "
    assert detail_location({**detail, "message": "No number."}) == "line 3, quota: "


def test_a_word_of_the_message_is_not_taken_for_the_place_of_the_fault() -> None:
    message = "This is not a valid quota: give whole GPUs."
    fault = ClientError(message, details=[{"path": "quota", "message": message}])
    assert fault.text_lines() == [f"Error: quota: {message}"]


@pytest.mark.parametrize("answer", [None, [], {}, {"dry_run": False}])
def test_an_effect_without_a_dry_run_is_an_error(answer: object) -> None:
    with pytest.raises(ClientError, match="did not answer with a dry run"):
        print_effect(answer)


def test_a_forbidden_effect_is_an_error_with_its_violations() -> None:
    violation = {"path": "quota", "code": "bad_value", "message": "quota must be a number."}
    with pytest.raises(ClientError, match="quota must be a number") as refused:
        print_effect({"dry_run": True, "violations": [violation]})
    assert refused.value.details == [violation]


def test_rows_within_an_object_are_compared_by_their_names() -> None:
    """The dry run of a cancellation was one line of thousands of characters."""
    tasks = [{"name": f"worker-{number}", "status": "RUNNING", "node": "n1"} for number in range(2)]
    group = {"name": "main", "status": "RUNNING", "end_time": None, "gpus": 2, "tasks": tasks}
    ended = {**group, "status": "FAILED_CANCELED", "tasks": [{**tasks[0], "status": "FAILED_CANCELED"}, tasks[1]]}
    assert change_lines({"groups": [group]}, {"groups": [ended]}) == [
        "groups.main.status: RUNNING → FAILED_CANCELED",
        "groups.main.tasks: 1 of 2 differ",
    ]
    assert change_lines({"groups": [group]}, {"groups": []})[0].startswith("groups: end_time=")


def test_an_effect_that_changes_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_effect({"dry_run": True, "before": {}, "after": {}})
    assert capsys.readouterr().out == "Nothing else changes.\n"


def test_a_refused_configuration_is_not_shown_as_if_all_its_values_were_lost() -> None:
    wrong = {"path": "speech.lending_limit", "message": "A lending limit needs a cohort."}
    answer = {"before": {"speech": {"quota": 48, "weight": 1}}, "after": None, "violations": [wrong]}
    assert effect_text(answer) == (
        "Dry run: the change would be refused.\nRefused: speech.lending_limit: A lending limit needs a cohort."
    )
    changed = answer | {"after": {"speech": {"quota": 40, "weight": 1}}, "violations": []}
    assert "speech.quota: 48 → 40" in effect_text(changed)
