"""The refused files, with the place and the code of each fault."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.specs import PlatformRules, SpecRules, parse
from tests.unit.specs.sample_files import (
    MINIMAL,
    one_task_file,
    read_fault_codes,
    read_faults,
    read_valid,
    read_valid_task,
)

T = "workflow.tasks[0]"
TOPOLOGY = "workflow.resources.default.topology[0]"

MANY_FAULTS = """\
workflow:
  name: 1bad
  tsks: []
  timeout: {exec_timeout: 1x, queue: 1h}
  labels: {"a b": c, empty: "", osmo/simulated-runtime: soon}
  resources:
    default: {gpu: 1.5, memory: 1GB}
  groups:
  - name: G-1
    tasks:
    - {name: a, image: i, command: sh, inputs: [{task: b}, {task: nope}, {url: x, task: y}], resource: big}
    - {name: g_1, image: "i i", command: [], exitActions: {COMPLETED: 1, FAIL: 5-1}, privileged: maybe}
  - name: g2
    barrier: 3
    tasks:
    - {name: b, image: i, command: [sh], inputs: [{task: g_1}], volumeMounts: ["a:b:c"]}
"""


def test_every_fault_of_a_file_at_once_with_its_line() -> None:
    assert sorted(read_faults(MANY_FAULTS)) == sorted(
        [
            (2, "workflow.name", "bad_name"),
            (3, "workflow.tsks", "unknown_key"),
            (4, "workflow.timeout.queue", "unknown_key"),
            (4, "workflow.timeout.exec_timeout", "bad_duration"),
            (5, "workflow.labels.a b", "bad_label"),
            (5, "workflow.labels.empty", "bad_label"),
            (5, "workflow.labels.osmo/simulated-runtime", "bad_duration"),
            (7, "workflow.resources.default.gpu", "bad_number"),
            (7, "workflow.resources.default.memory", "bad_size"),
            (10, "workflow.groups[0].tasks", "leads"),
            (11, "workflow.groups[0].tasks[0].command", "wrong_type"),
            (11, "workflow.groups[0].tasks[0].inputs", "unknown_task"),
            (11, "workflow.groups[0].tasks[0].inputs[2]", "bad_source"),
            (11, "workflow.groups[0].tasks[0].resource", "unknown_resource"),
            (12, "workflow.groups[0].tasks[1].name", "duplicate_name"),
            (12, "workflow.groups[0].tasks[1].image", "bad_image"),
            (12, "workflow.groups[0].tasks[1].command", "empty"),
            (12, "workflow.groups[0].tasks[1].exitActions.COMPLETED", "unknown_key"),
            (12, "workflow.groups[0].tasks[1].exitActions.FAIL", "bad_exit_codes"),
            (12, "workflow.groups[0].tasks[1].privileged", "wrong_type"),
            (14, "workflow.groups[1].barrier", "wrong_type"),
            (16, "workflow.groups[1].tasks[0].volumeMounts[0]", "bad_mount"),
            (9, "workflow.groups[0]", "cycle"),
        ]
    )


def test_faults_are_in_the_order_of_the_file() -> None:
    lines = [line for line, _, _ in read_faults(MANY_FAULTS)]
    assert lines == sorted(line for line in lines if line is not None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("version: 2\n", (1, "workflow", "missing"), id="no workflow"),
        pytest.param("workflow:\n", (1, "workflow", "missing"), id="workflow without a value"),
        pytest.param("workflow: 5\n", (1, "workflow", "wrong_type"), id="workflow is a number"),
        pytest.param(f"{MINIMAL}extra: 1\n", (5, "extra", "unknown_key"), id="unknown top level key"),
        pytest.param(f"version: 1\n{MINIMAL}", (1, "version", "bad_version"), id="version 1"),
        pytest.param(f"version: true\n{MINIMAL}", (1, "version", "bad_version"), id="version true"),
        pytest.param(MINIMAL.replace("  name: hello\n", ""), (1, "workflow.name", "missing"), id="no name"),
        pytest.param("workflow:\n  name: n\n", (1, "workflow", "tasks_or_groups"), id="neither tasks nor groups"),
        pytest.param(f"{MINIMAL}  groups: []\n", (1, "workflow", "tasks_or_groups"), id="both tasks and groups"),
        pytest.param("workflow: {name: n, tasks: []}\n", (1, "workflow.tasks", "empty"), id="no task"),
        pytest.param(
            "workflow: {name: n, groups: [{name: g, tasks: []}]}\n",
            (1, "workflow.groups[0].tasks", "empty"),
            id="no task in a group",
        ),
        pytest.param(
            "workflow: {name: n, groups: [{name: g}]}\n",
            (1, "workflow.groups[0].tasks", "missing"),
            id="group without tasks",
        ),
        pytest.param(
            "workflow: {name: n, tasks: [5]}\n", (1, "workflow.tasks[0]", "wrong_type"), id="a task is a number"
        ),
        pytest.param(one_task_file("resources: {}"), (7, T + ".resources", "unknown_key"), id="resources in a task"),
        pytest.param(one_task_file("resource: big"), (7, T + ".resource", "unknown_resource"), id="unknown resource"),
        pytest.param(
            one_task_file(workflow="resources: {big: {gpu: 1}}"),
            (4, T + ".resource", "unknown_resource"),
            id="no default resource",
        ),
        pytest.param(one_task_file("args: [a, [b]]"), (7, T + ".args[1]", "wrong_type"), id="a list among args"),
        pytest.param(one_task_file("args: [a, ]\nlead: perhaps"), (8, T + ".lead", "wrong_type"), id="lead is a word"),
        pytest.param(one_task_file("args:\n- a\n-"), (9, T + ".args[1]", "empty"), id="an empty item"),
        pytest.param(
            one_task_file("environment: {A=B: c}"), (7, T + ".environment.A=B", "bad_name"), id="variable with ="
        ),
        pytest.param(
            one_task_file("environment: {A: [c]}"), (7, T + ".environment.A", "wrong_type"), id="variable is a list"
        ),
        pytest.param(one_task_file("environment: {1: c}"), (7, "file", "bad_key"), id="a key that is a number"),
        pytest.param(
            one_task_file("files: [{path: /osmo/x, contents: c}]"),
            (7, T + ".files[0].path", "bad_path"),
            id="file in /osmo",
        ),
        pytest.param(one_task_file("files: [{path: /x}]"), (7, T + ".files[0]", "missing"), id="file without contents"),
        pytest.param(
            one_task_file("files: [{path: /x, contents: a}, {path: /x, contents: b}]"),
            (7, T + ".files[1].path", "duplicate_path"),
            id="two files, one path",
        ),
        pytest.param(one_task_file("inputs: [{}]"), (7, T + ".inputs[0]", "bad_source"), id="empty input"),
        pytest.param(
            one_task_file("inputs: [{task: a b}]"), (7, T + ".inputs[0].task", "bad_name"), id="input is not a name"
        ),
        pytest.param(
            one_task_file("inputs: [{url: s3://x, regex: '('}]"),
            (7, T + ".inputs[0].regex", "bad_regex"),
            id="broken pattern",
        ),
        pytest.param(
            one_task_file("outputs: [{task: t}]"), (7, T + ".outputs[0].task", "unknown_key"), id="a task as output"
        ),
        pytest.param(
            one_task_file("inputs: [{task: t}]"), (7, T + ".inputs", "own_group"), id="a task reads from itself"
        ),
        pytest.param(
            one_task_file("credentials: {c: [x]}"), (7, T + ".credentials.c", "wrong_type"), id="credential is a list"
        ),
        pytest.param(
            one_task_file("checkpoint: [{path: /x, url: s3://x}]"),
            (7, T + ".checkpoint[0].frequency", "missing"),
            id="checkpoint without frequency",
        ),
        pytest.param(
            one_task_file("checkpoint: [{path: /x, url: u, frequency: often}]"),
            (7, T + ".checkpoint[0].frequency", "bad_duration"),
            id="checkpoint frequency",
        ),
        pytest.param(
            one_task_file(workflow="resources: {default: {topology: [{group: g}]}}"),
            (7, TOPOLOGY + ".key", "missing"),
            id="topology without key",
        ),
        pytest.param(
            one_task_file(workflow="resources: {default: {topology: [{key: k, requirementType: x}]}}"),
            (7, TOPOLOGY + ".requirementType", "bad_value"),
            id="topology kind",
        ),
        pytest.param(
            one_task_file(workflow="labels: {a: {b: c}}"), (7, "workflow.labels.a", "wrong_type"), id="label is a map"
        ),
    ],
)
def test_refused(text: str, expected: tuple[int, str, str]) -> None:
    assert expected in read_faults(text)


@pytest.mark.parametrize(
    ("name", "good"),
    [("a", True), ("A-b_c9", True), ("a--b", True), ("9a", False), ("a-", False), ("-a", False), ("a.b", False),
     ("a b", False), ("ä", False), ("a" * 128, True), ("a" * 129, False), ("osmo-ctrl", False),
     ("OSMO_ctrl", False)],
)  # fmt: skip
def test_names(name: str, good: bool) -> None:
    parsed = parse(f"workflow: {{name: n, tasks: [{{name: {name}, image: i, command: [sh]}}]}}\n")
    assert (parsed.spec is not None) is good


def test_a_bare_task_may_be_called_as_the_group_of_another() -> None:
    """OSMO names the groups of bare tasks itself and does not compare those names with tasks."""
    spec = read_valid(
        "workflow: {name: n, tasks: [{name: a, image: i, command: [sh]}, {name: a-group, image: i, command: [sh]}]}\n"
    )
    assert [group.name for group in spec.groups] == ["a-group", "a-group-group"]


def test_exactly_one_lead() -> None:
    def group(*leads: str) -> str:
        tasks = ", ".join(f"{{name: t{n}, image: i, command: [sh]{lead}}}" for n, lead in enumerate(leads))
        return f"workflow: {{name: n, groups: [{{name: g, tasks: [{tasks}]}}]}}\n"

    assert read_valid(group("")).tasks[0].lead
    assert read_valid(group(", lead: false")).tasks[0].lead
    assert read_valid(group("", ", lead: true")).tasks[1].lead
    assert read_fault_codes(group("", "")) == ["leads"]
    assert read_fault_codes(group(", lead: true", ", lead: true")) == ["leads"]


def test_groups_may_be_in_any_order() -> None:
    spec = read_valid(
        "workflow: {name: n, tasks: [{name: b, image: i, command: [sh], inputs: [{task: a}]}, "
        "{name: a, image: i, command: [sh]}]}\n"
    )
    assert [(group.name, group.inputs) for group in spec.groups] == [("b-group", ("a-group",)), ("a-group", ())]


def test_task_count() -> None:
    tasks = ", ".join(f"{{name: t{n}, image: i, command: [sh]}}" for n in range(3))
    text = f"workflow: {{name: n, tasks: [{tasks}]}}\n"
    assert read_valid(text, rules=SpecRules(max_tasks=3)).tasks
    assert read_fault_codes(text, rules=SpecRules(max_tasks=2)) == ["too_many_tasks"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("images", "image"),
        ("exit_actions", "exitActions"),
        ("hostnetwork", "hostNetwork"),
        ("enviroment", "environment"),
    ],
)
def test_a_typing_error_gets_a_suggestion(typed: str, meant: str) -> None:
    (fault,) = parse(one_task_file(f"{typed}: x")).violations
    assert f'Did you mean "{meant}"?' in fault.message


class TestPlatforms:
    rules = SpecRules(
        platforms={"small": PlatformRules(), "big": PlatformRules(True, True, ("/dev/shm",))}, default_platform=None
    )

    def test_a_platform_is_required_without_a_default(self) -> None:
        assert read_faults(one_task_file(), rules=self.rules) == [(4, "workflow.tasks[0]", "no_platform")]
        text = one_task_file(workflow="resources: {default: {cpu: 1}}")
        assert read_faults(text, rules=self.rules) == [(7, "workflow.resources.default", "no_platform")]

    def test_the_pools_default(self) -> None:
        rules = SpecRules(platforms=self.rules.platforms, default_platform="small")
        assert read_valid_task(rules=rules).platform == "small"

    def test_not_checked_without_facts(self) -> None:
        assert read_valid_task("privileged: true").platform is None

    def test_unknown(self) -> None:
        text = one_task_file(workflow="resources: {default: {platform: bigg}}")
        (fault,) = parse(text, rules=self.rules).violations
        assert fault.code == "unknown_platform"
        assert 'Did you mean "big"?' in fault.message

    def test_rights_of_the_platform(self) -> None:
        fields = "privileged: true\nhostNetwork: true\nvolumeMounts: ['/dev/shm:/x', /etc]"
        big = one_task_file(fields, "resources: {default: {platform: big}}")
        assert read_faults(big, rules=self.rules) == [(9, T + ".volumeMounts[1]", "not_allowed")]
        small = one_task_file(fields, "resources: {default: {platform: small}}")
        assert read_fault_codes(small, rules=self.rules) == ["not_allowed"] * 4

    def test_topology_keys_of_the_pool(self) -> None:
        text = one_task_file(workflow="resources: {default: {topology: [{key: rack}]}}")
        assert read_valid(text, rules=SpecRules(topology_keys={"rack"})).tasks[0].topology[0].key == "rack"
        assert read_fault_codes(text, rules=SpecRules(topology_keys={"zone"})) == ["unknown_topology"]


class TestTimeouts:
    rules = SpecRules(
        default_exec_timeout=timedelta(hours=1),
        default_queue_timeout=timedelta(hours=2),
        max_exec_timeout=timedelta(days=1),
    )

    def test_the_pools_defaults(self) -> None:
        spec = read_valid(MINIMAL, rules=self.rules)
        assert (spec.exec_timeout, spec.queue_timeout) == (timedelta(hours=1), timedelta(hours=2))

    def test_a_time_above_the_maximum_is_reduced_with_a_warning(self) -> None:
        """OSMO reduces the time silently; a refusal would refuse files that run there."""
        parsed = parse(one_task_file(workflow="timeout: {exec_timeout: 2d, queue_timeout: 30d}"), rules=self.rules)
        assert parsed.spec is not None
        assert (parsed.spec.exec_timeout, parsed.spec.queue_timeout) == (timedelta(days=1), timedelta(days=30))
        assert ["the time is more than the pool allows" in warning for warning in parsed.warnings] == [True]

    def test_zero_is_the_default(self) -> None:
        parsed = parse(one_task_file(workflow="timeout: {exec_timeout: 0}"), rules=self.rules)
        assert parsed.spec is not None
        assert parsed.spec.exec_timeout == timedelta(hours=1)
        assert parsed.warnings

    def test_a_section_whose_content_is_a_comment(self) -> None:
        assert read_valid(one_task_file(workflow="timeout:\n#  exec_timeout: 1h")).exec_timeout is None


def test_an_unused_resource_is_only_a_warning() -> None:
    parsed = parse(one_task_file(workflow="resources: {default: {}, other: {}}"))
    assert parsed.spec is not None
    assert "workflow.resources.other (line 7)" in parsed.warnings[0]


def test_too_many_faults_are_counted_not_listed() -> None:
    parsed = parse(one_task_file(workflow="\n".join(f"k{n}: 1" for n in range(150))))
    assert len(parsed.violations) == 101
    assert parsed.violations[-1].message.startswith("50 more faults")
