"""Templates: their language, the messages when they fail, and the lines of faults."""

from __future__ import annotations

import pytest

from scheduling.specs import SpecRules, parse
from scheduling.specs.rendering.variables import TypedValue, parse_typed_value
from tests.unit.specs.sample_files import (
    MINIMAL,
    one_task_file,
    read_fault_codes,
    read_faults,
    read_valid,
    read_valid_task,
)

NAMED = MINIMAL.replace("hello", "{{ name }}")


def defaults(text: str) -> str:
    return f"{NAMED}default-values:\n{text}"


class TestVariables:
    def test_the_strongest_wins(self) -> None:
        rules = SpecRules(default_variables={"name": "pool"})
        text = defaults("  name: file\n")
        assert read_valid(NAMED, rules=rules).name == "pool"
        assert read_valid(text, rules=rules).name == "file"
        assert read_valid(text, rules=rules, set_variables=["name=set"]).name == "set"
        assert (
            read_valid(text, rules=rules, set_variables=["name=set"], set_string_variables=["name=text"]).name == "text"
        )

    def test_dotted_names_reach_into_maps_and_change_only_that(self) -> None:
        text = (
            one_task_file(workflow="resources: {default: {gpu: {{ r.gpu }}, cpu: {{ r.cpu }}}}")
            + "default-values: {r: {gpu: 1, cpu: 2}}\n"
        )
        task = read_valid(text, set_variables=["r.gpu=4"]).tasks[0]
        assert (task.gpu, task.cpu) == (4, 2)

    def test_dotted_names_leave_the_pools_own_values_alone(self) -> None:
        rules = SpecRules(default_variables={"r": {"name": "a"}})
        assert read_valid(NAMED.replace("name }}", "r.name }}"), rules=rules, set_variables=["r.name=b"]).name == "b"
        assert rules.default_variables == {"r": {"name": "a"}}

    @pytest.mark.parametrize("assignment", ["name", "", "=x", "a..b=x", ".a=x", "name.part=x", "a" + ".a" * 100 + "=x"])
    def test_an_option_without_a_value_is_refused(self, assignment: str) -> None:
        text = defaults("  name: file\n")
        assert read_faults(text, set_variables=["name=n", assignment])[0] == (
            None,
            "set_variables[1]",
            "bad_assignment",
        )

    @pytest.mark.parametrize(
        ("text", "value"),
        [("5", 5), ("1.5", 1.5), ("abc", "abc"), ("", ""), ("false", TypedValue("false", False)),
         ("True", TypedValue("True", True)), ("[a, 1]", TypedValue("[a, 1]", ["a", 1])),
         ('{"a": 1}', TypedValue('{"a": 1}', {"a": 1})), ("[a", "[a"), ("nan", "nan"), ("inf", "inf"),
         ("9" * 5000, "9" * 5000), ("null", "null"), ("yes", "yes"), ("1:30", "1:30"), ("2024-01-01", "2024-01-01"),
         ("a=b", "a=b"), ("{{ x }}", "{{ x }}"), ("!!python/none x", "!!python/none x")],
    )  # fmt: skip
    def test_types(self, text: str, value: object) -> None:
        found = parse_typed_value(text)
        assert (type(found), found) == (type(value), value)

    def test_a_set_value_tests_as_its_type_and_prints_as_typed(self) -> None:
        text = one_task_file(
            "args: ['{{ flag }}', '{{ cfg }}', '{{ cfg.a }}', "
            "'{% for x in list %}{{ x }};{% endfor %}'{% if flag %}, on{% endif %}]"
        )
        task = read_valid(text, set_variables=["flag=false", 'cfg={"a": 1}', "list=[p, q]"]).tasks[0]
        assert task.args == ("false", '{"a": 1}', "1", "p;q;")
        assert read_valid(text, set_variables=["flag=true", "cfg={a: 1}", "list=[]"]).tasks[0].args[-1] == "on"

    def test_a_variable_that_the_file_does_not_use_is_a_warning(self) -> None:
        parsed = parse(NAMED, set_variables=["name=n", "nmae=m"])
        assert parsed.spec is not None
        assert parsed.warnings == ('The variable "nmae" is set, but the file does not use it.',)

    def test_dates_and_numbers_as_keys(self) -> None:
        text = NAMED.replace("name }}", "m[1] }}-{{ day }}") + "default-values: {m: {1: x}, day: 2024-01-02}\n"
        assert read_valid(text).name == "x-2024-01-02"

    @pytest.mark.parametrize("section", ["  [a\n", "  - a\n", "  5\n", "- a\n"])
    def test_defaults_that_are_not_a_map(self, section: str) -> None:
        assert {path for _, path, _ in read_faults(defaults(section))} == {"default-values"}

    def test_two_sections_of_defaults(self) -> None:
        text = defaults("  name: a\n") + "default-values:\n  name: b\n"
        assert (7, "default-values", "duplicate_key") in read_faults(text)

    def test_defaults_may_be_first_and_in_json(self) -> None:
        assert read_valid(f"default-values:\n  name: first\n\n{NAMED}").name == "first"
        assert (
            read_valid(
                '{"default-values": {"n": "j"}, "workflow": {"name": "{{ n }}", '
                '"tasks": [{"name": "t", "image": "i", "command": ["sh"]}]}}'
            ).name
            == "j"
        )

    def test_the_key_inside_a_block_of_text_is_not_a_section(self) -> None:
        text = one_task_file("args:\n- |\n  default-values:\n    x: {{ x }}") + "default-values:\n  x: 1\n"
        assert read_valid(text).tasks[0].args == ("default-values:\n  x: 1\n",)

    def test_a_block_of_text_gets_no_line_of_the_removed_section(self) -> None:
        text = one_task_file("args:\n- |+\n  {{ x }}") + "\n\n"
        alone = read_valid(text, set_variables=["x=1"]).tasks[0].args
        assert alone == ("1\n\n\n",)
        assert read_valid(text + "default-values:\n  x: 1\n\n").tasks[0].args == alone


class TestMarks:
    def test_tokens_of_osmo_stay_unchanged(self) -> None:
        arguments = "{{output}} {{ output }} {{input:0}} {{ input:t }} {{host:t}} {{workflow_id}} {{uuid}}"
        assert read_valid_task(f"args: ['{arguments}', '{{{{ 1 + 1 }}}}']").args == (arguments, "2")

    def test_a_token_with_blanks_is_a_variable_if_one_has_that_name(self) -> None:
        text = one_task_file("args: ['{{output}}', '{{ output }}', '{{ 1 }}']") + "default-values: {output: mine}\n"
        assert read_valid(text).tasks[0].args == ("{{output}}", "mine", "1")

    def test_a_file_with_tokens_only_is_not_a_template(self) -> None:
        assert read_valid_task("args: ['{{output}} ${#array[@]}']").args == ("{{output}} ${#array[@]}",)

    def test_tokens_inside_expressions_and_raw_blocks(self) -> None:
        task = read_valid_task("""args: ['{{ "{{output}}/x" }}', '{% raw %}{{output}} {{ x }}{% endraw %}']""")
        assert task.args == ("{{output}}/x", "{{output}} {{ x }}")


class TestLines:
    def test_a_fault_in_a_loop_has_the_line_of_its_template(self) -> None:
        text = (
            "workflow:\n  name: n\n  tasks:\n  {% for i in range(3) %}\n  - name: t{{ i }}\n    image: i\n"
            "    command: [sh]\n    {% if i == 2 %}\n    bogus: 1\n    {% endif %}\n  {% endfor %}\n  after: 1\n"
        )
        assert read_faults(text) == [
            (9, "workflow.tasks[2].bogus", "unknown_key"),
            (12, "workflow.after", "unknown_key"),
        ]

    def test_lines_after_values_of_several_lines_and_stripped_blanks(self) -> None:
        text = "{% set x = 1 -%}\n\n\nworkflow:\n  name: n\n  {{ tasks }}\n  {# two\n lines #}\n  bogus: 1\n"
        given = "tasks:\n  - name: t\n    image: i\n    command: [sh]"
        assert read_faults(text, set_string_variables=[f"tasks={given}"]) == [(9, "workflow.bogus", "unknown_key")]

    def test_with_defaults_and_comments_above(self) -> None:
        text = f"# one {{{{ x }}}}\n\n# two\ndefault-values:\n  name: n\n{NAMED}  bogus: 1\n"
        assert read_faults(text) == [(10, "workflow.bogus", "unknown_key")]

    def test_yaml_that_a_template_broke(self) -> None:
        assert read_faults(NAMED, set_variables=["name=[a"])[0][0] in (2, 3)


class TestFaults:
    def test_all_undefined_variables_are_reported_with_other_faults(self) -> None:
        text = (
            one_task_file(
                "args: ['{{ a }}', '{{ b.c }}']",
                "bogus: 1\nresources: {default: {gpu: {{ gpus }}, cpu: 1}}\nlabels: {x: }",
            )
            + "default-values: {b: {}}\n"
        )
        assert read_faults(text) == [
            (7, "file", "undefined_variable"),
            (7, "file", "undefined_variable"),
            (8, "workflow.bogus", "unknown_key"),
            (9, "file", "undefined_variable"),
            (10, "workflow.labels.x", "bad_label"),
        ]

    def test_a_similar_name_is_suggested(self) -> None:
        (fault,) = parse(NAMED.replace("{{ name", "{{ nmae") + "default-values: {name: x}\n").violations
        assert 'Did you mean "name"?' in fault.message
        assert "--set nmae=" in fault.message

    def test_an_undefined_value_that_rendering_needs(self) -> None:
        assert read_faults("{% for i in range(n) %}\n{% endfor %}\n" + MINIMAL) == [(1, "file", "undefined_variable")]
        assert read_faults("\n{% if n %}{% endif %}\n" + MINIMAL) == [(2, "file", "undefined_variable")]

    def test_tests_for_undefined_variables_are_allowed(self) -> None:
        assert (
            read_valid(MINIMAL.replace("hello", '{{ n | default("d") }}{% if m is defined %}x{% endif %}')).name == "d"
        )

    @pytest.mark.parametrize(
        ("template", "code", "says"),
        [
            ("${#array[@]} {{ 1 }}", "template_syntax", "{% raw %}"),
            ("docker ps --format {{.Names}}", "template_syntax", "{% raw %}"),
            ("{% endfor %}", "template_syntax", "endfor"),
            ("{% if 1 %}", "template_syntax", "endif"),
            ("{{ 1 / 0 }}", "template_failed", "division by zero"),
            ("{{ 'a' | nope }}", "template_syntax", "nope"),
            ("{% include 'x' %}", "template_failed", "loader"),
            ("{{ ''.__class__ }}", "template_forbidden", "__class__"),
            ("{{ x.y.z }}", "undefined_variable", "x"),
        ],
    )
    def test_sentences(self, template: str, code: str, says: str) -> None:
        (fault,) = parse(f"# first line\n{MINIMAL}\n# {template}\n").violations
        assert (fault.code, fault.line) == (code, 7)
        assert says in fault.message

    def test_a_forbidden_character_from_a_template(self) -> None:
        assert read_fault_codes(MINIMAL.replace("hello", r'{{ "\0" }}')) == ["bad_character"]
        assert read_fault_codes(MINIMAL.replace("hello", r'{{ "\ud800" }}')) == ["bad_character"]


def test_text_that_was_rendered_before_is_not_rendered_again() -> None:
    text = one_task_file("args: ['{{ .Names }} ${#a[@]} {% x %}']")
    assert read_valid(text, is_rendered=True).tasks[0].args == ("{{ .Names }} ${#a[@]} {% x %}",)


def test_the_rendered_text_keeps_comments_and_the_header() -> None:
    parsed = parse(f"# mine, {{{{ as is }}}}\n\n{NAMED}  # kept\ndefault-values:\n  name: n\n")
    assert parsed.rendered_text.startswith("# mine, {{ as is }}\n\nworkflow:\n  name: n\n")
    assert "# kept" in parsed.rendered_text
