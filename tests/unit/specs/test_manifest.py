"""A PodGroup manifest as a submitted file: its spec, and every fault with its place."""

from __future__ import annotations

import json

import pytest

from scheduling.domain.priorities import Priority
from scheduling.specs import PlatformRules, SpecRules, parse
from tests.unit.specs.sample_files import MINIMAL, assert_consistent, read_fault_codes, read_faults, read_valid

INFERENCE = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: inference-service
  annotations: {osmo/gpus-per-pod: 1}
spec:
  minSubGroup: 3     # Need 3 out of 4 replicas
  subGroups:
    - name: prefill-0
      minMember: 8   # Leaf: uses minMember for pods
    - name: prefill-1
      minMember: 8
    - name: prefill-2
      minMember: 8
    - name: prefill-3
      minMember: 8
"""
TRAINING = """\
kind: PodGroup
metadata: {name: training-job, annotations: {osmo/gpus-per-pod: {decode-workers: 8, prefill-workers: 8}}}
spec:
  minSubGroup: 2
  subGroups:
    - {name: decode, minSubGroup: 2}
    - {name: decode-leaders, parent: decode, minMember: 1}
    - {name: decode-workers, parent: decode, minMember: 4}
    - {name: prefill, minSubGroup: 2}
    - {name: prefill-leaders, parent: prefill, minMember: 1}
    - {name: prefill-workers, parent: prefill, minMember: 4}
"""


def plain(spec: str = "{minMember: 2}", **annotations: object) -> str:
    """A PodGroup without SubGroups; the annotations without their `osmo/`, with `-` for `_`."""
    named = {f"osmo/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return f"kind: PodGroup\nmetadata: {{name: job, annotations: {json.dumps(named)}}}\nspec: {spec}\n"


def two(**annotations: object) -> str:
    """A PodGroup with the SubGroups a (2) and b (1)."""
    return plain("{subGroups: [{name: a, minMember: 2}, {name: b, minMember: 1}]}", **annotations)


def test_each_leaf_has_its_minimum_of_pods_called_after_it():
    spec = read_valid(INFERENCE)
    (gang,) = spec.groups
    assert (spec.name, gang.name) == ("inference-service", "inference-service")
    assert [task.name for task in gang.tasks] == [f"prefill-{i}-{n}" for i in range(4) for n in range(8)]
    assert [task.sub_group for task in gang.tasks[::8]] == ["prefill-0", "prefill-1", "prefill-2", "prefill-3"]
    assert {task.gpu for task in gang.tasks} == {1}
    assert not any(task.lead for task in gang.tasks)
    assert gang.gang == {
        "min_sub_group": 3,
        "sub_groups": [{"name": f"prefill-{i}", "min_member": 8} for i in range(4)],
    }


def test_admission_checks_the_required_minimum():
    assert read_valid(INFERENCE).largest_gang_gpus == 24
    assert (
        read_valid(INFERENCE.replace("  minSubGroup: 3     # Need 3 out of 4 replicas\n", "")).largest_gang_gpus == 32
    )
    assert read_valid(TRAINING).largest_gang_gpus == 64
    assert read_valid(two(gpus_per_pod=3, pods={"a": 5})).largest_gang_gpus == 9


def test_json_is_yaml_too():
    body = {"kind": "PodGroup", "metadata": {"name": "x"}, "spec": {"minMember": 3}}
    spec = read_valid(json.dumps(body, indent="\t"))
    assert [(task.name, task.sub_group) for task in spec.tasks] == [("x-0", ""), ("x-1", ""), ("x-2", "")]
    assert spec.groups[0].gang == {"min_member": 3}


def test_without_any_minimum_it_is_one_pod():
    assert [task.name for task in read_valid(plain("{}")).tasks] == ["job-0"]


@pytest.mark.parametrize("given", [4, "4", {"default": 4}, '{"default": 4}', "{default: '4'}"])
def test_annotations_may_be_texts_as_in_kubernetes(given):
    spec = read_valid(plain(pods=given, gpus_per_pod=given))
    assert [task.gpu for task in spec.tasks] == [4, 4, 4, 4]
    assert spec.largest_gang_gpus == 8


def test_pods_of_one_sub_group_and_of_another_differ():
    spec = read_valid(
        two(
            pods={"b": 3},
            gpus_per_pod={"a": 1, "b": 2},
            image={"a": "ubuntu", "b": "alpine"},
            command='["python", "serve.py"]',
        )
    )
    assert [(task.sub_group, task.gpu, task.image) for task in spec.tasks] == [
        *[("a", 1, "ubuntu")] * 2,
        *[("b", 2, "alpine")] * 3,
    ]
    assert {task.command for task in spec.tasks} == {("python", "serve.py")}


@pytest.mark.parametrize(
    ("name", "priority"),
    [
        ("osmo-high", Priority.HIGH),
        ("osmo-normal", Priority.NORMAL),
        ("osmo-low", Priority.LOW),
        ("", None),
        ("inference", Priority.HIGH),
        ("build", Priority.NORMAL),
        ("build-preemptible", Priority.LOW),
        ("train", Priority.LOW),
    ],
)
def test_the_priority_class_is_the_priority(name, priority):
    assert read_valid(plain(f"{{minMember: 1, priorityClassName: {name or 'null'}}}")).priority is priority


def test_labels_are_the_workflow_s():
    text = plain().replace("{name: job,", "{name: job, labels: {team: x, osmo/simulated-runtime: 5s},")
    spec = read_valid(text)
    assert spec.labels == {"team": "x", "osmo/simulated-runtime": "5s"}
    assert read_faults(text.replace("5s", "soon")) == [(2, "metadata.labels.osmo/simulated-runtime", "bad_duration")]


def test_the_pool_gives_times_exit_actions_and_platform():
    from datetime import timedelta

    rules = SpecRules(
        default_exec_timeout=timedelta(hours=1),
        default_queue_timeout=timedelta(hours=2),
        exit_actions={"RESCHEDULE": "7"},
        platforms={"a100": PlatformRules(), "h100": PlatformRules()},
        default_platform="a100",
    )
    spec = read_valid(two(platform={"b": "h100"}), rules=rules)
    assert (spec.exec_timeout, spec.queue_timeout) == (timedelta(hours=1), timedelta(hours=2))
    assert [task.platform for task in spec.tasks] == ["a100", "a100", "h100"]
    assert spec.tasks[0].exit_actions == {"RESCHEDULE": ((7, 7),)}


def test_warnings_pass_through():
    parsed = parse(INFERENCE.replace("minSubGroup: 3 ", "minMember: 32 "))
    assert parsed.spec is not None
    assert parsed.warnings == (
        "spec.minMember (line 7): The PodGroup has SubGroups, so its minMember (32) is ignored.",
    )


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            plain("{minMember: 1, queue: other}"),
            'spec.queue (line 3): "queue" is not used here: the work goes into the',
        ),
        (plain("{minmember: 1}"), '"minmember" is not used here. Did you mean "minMember"?'),
        (two().replace("minMember: 2", "minMember: 2, topologyConstraint: {}"), "spec.subGroups[0].topologyConstraint"),
        (plain() + "extra: 1\n", 'extra (line 4): "extra" is not used here.'),
        (plain().replace("{name: job,", "{name: job, namespace: ns,"), "metadata.namespace (line 2)"),
        (plain(), "Its pods request no GPUs: the annotation osmo/gpus-per-pod does not name them."),
        (two(gpus_per_pod={"a": 1}), "The pods of b request no GPUs"),
    ],
)
def test_unused_fields_get_a_warning(text, warning):
    parsed = parse(text)
    assert parsed.spec is not None
    assert any(warning in sentence for sentence in parsed.warnings), parsed.warnings


@pytest.mark.parametrize(
    "name",
    [
        "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "runai/gpu-memory", "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpu.shared", "amd.com/gpu", "nvidia.com/gpu",
    ],
)  # fmt: skip
def test_an_annotation_that_asks_for_uncounted_devices_is_refused_by_its_name(name):
    """KAI would give the pod a part of a GPU that no quota counts."""
    text = INFERENCE.replace("{osmo/gpus-per-pod: 1}", f'{{osmo/gpus-per-pod: 1, {name}: "1"}}')
    assert read_faults(text) == [(5, f"metadata.annotations.{name}", "uncounted_devices")]
    (fault,) = parse(text).violations
    assert f'"{name}"' in fault.message


@pytest.mark.parametrize("field", ["resourceClaims", "resourceClaimTemplates", "resources"])
def test_a_field_that_asks_for_uncounted_devices_is_refused_by_its_name(field):
    claims = f"{field}: [{{name: gpu}}]"
    assert read_faults(plain(f"{{minMember: 1, {claims}}}")) == [(3, f"spec.{field}", "uncounted_devices")]
    inner = f"{{subGroups: [{{name: a, minMember: 1, {claims}}}]}}"
    assert read_faults(plain(inner)) == [(3, f"spec.subGroups[0].{field}", "uncounted_devices")]


def test_fields_added_by_a_cluster_are_ignored_with_a_warning():
    text = INFERENCE.replace("metadata:", "status: {phase: x}\nmetadata:\n  uid: u\n  resourceVersion: '1'")
    text = text.replace("{osmo/gpus-per-pod: 1}", "{osmo/gpus-per-pod: 1, kubectl.kubernetes.io/x: y}")
    parsed = parse(text)
    assert parsed.spec is not None
    for name in ("uid", "resourceVersion", "status", "kubectl.kubernetes.io/x"):
        assert any(f'"{name}" is not used here' in warning for warning in parsed.warnings), name


def test_given_variables_are_ignored_with_a_warning():
    parsed = parse(INFERENCE, set_variables=["a=1"])
    assert parsed.spec is not None
    assert parsed.warnings == ("A PodGroup manifest is not a template; the given variables are not used.",)
    assert parsed.rendered_text == INFERENCE


def test_all_faults_at_once_with_path_and_line():
    text = INFERENCE.replace("minSubGroup: 3 ", "minSubGroup: 5 ").replace(
        "name: prefill-3\n      minMember: 8", "name: 3"
    )
    text = text.replace("gpus-per-pod: 1", "gpus-per-pod: {prefill-0: some, prefill-9: 1}, osmo/gpu: 1")
    text = text.replace("kind: PodGroup", "kind: PodGroup # here").replace(
        "spec:\n", "spec:\n  priorityClassName: normal\n"
    )
    assert read_faults(text) == [
        (5, "metadata.annotations.osmo/gpu", "unknown_key"),
        (5, "metadata.annotations.osmo/gpus-per-pod.prefill-0", "bad_number"),
        (7, "spec.priorityClassName", "bad_value"),
        (16, "spec.subGroups[3].name", "bad_value"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INFERENCE.replace("minSubGroup: 3", "minSubGroup: 5"),
         (7, "spec.minSubGroup", "min_sub_group_above_children")),
        (TRAINING.replace("parent: prefill, minMember: 4", "parent: x, minMember: 4"),
         (11, "spec.subGroups[5].parent", "unknown_parent")),
        (TRAINING.replace("{name: prefill, minSubGroup: 2}", "{name: prefill, minMember: 2}"),
         (9, "spec.subGroups[3].minMember", "inner_with_min_member")),
        (plain("{minMember: .nan}"), (3, "spec.minMember", "bad_value")),
        (plain("{minMember: 1e3}"), (3, "spec.minMember", "bad_value")),
        (plain("{minMember: 1, minMember: 2}"), (3, "file", "duplicate_key")),
        (plain("{minMember: 1001}"), (3, "spec", "too_many_tasks")),
        (plain("{minMember: 2147483647}"), (3, "spec", "too_many_tasks")),
        (plain("{minMember: 99999999999999999999}"), (3, "spec.minMember", "bad_value")),
        (plain(pods=1001), (3, "spec", "too_many_tasks")),
        (plain(pods=1), (2, "metadata.annotations.osmo/pods", "pods_below_minimum")),
        (plain(pods=0), (2, "metadata.annotations.osmo/pods", "bad_number")),
        (plain(pods=-1), (2, "metadata.annotations.osmo/pods", "bad_number")),
        (plain(gpus_per_pod=0.5), (2, "metadata.annotations.osmo/gpus-per-pod", "bad_number")),
        (plain(gpus_per_pod=[1]), (2, "metadata.annotations.osmo/gpus-per-pod", "bad_number")),
        (plain(gpus_per_pod="{a: "), (2, "metadata.annotations.osmo/gpus-per-pod", "yaml_syntax")),
        (plain(gpus_per_pod={"a": 1}), (2, "metadata.annotations.osmo/gpus-per-pod.a", "unknown_name")),
        (plain(command="sleep 10"), (2, "metadata.annotations.osmo/command", "wrong_type")),
        (plain(image="two words"), (2, "metadata.annotations.osmo/image", "bad_image")),
        (plain("x"), (3, "spec", "bad_value")),
        (plain("{subGroups: [x]}"), (3, "spec.subGroups[0]", "bad_value")),
        (plain().replace("name: job,", ""), (2, "metadata.name", "missing")),
        (plain().replace("job", "9job"), (2, "metadata.name", "bad_name")),
        (plain().replace("job", "Job Two"), (2, "metadata.name", "bad_name")),
        ("kind: PodGroup\nspec: {minMember: 1}\n", (1, "metadata.name", "missing")),
        ("kind: PodGroup\nmetadata: x\nspec: {minMember: 1}\n", (2, "metadata", "wrong_type")),
        ("kind: PodGroup\nmetadata: {name: x}\n", (1, "spec", "bad_value")),
        (two().replace("name: a", "name: a/b"), (3, "spec.subGroups[0].name", "bad_name")),
        (two().replace("name: b", "name: A"), (3, "spec.subGroups[1].name", "duplicate_name")),
        (two().replace("name: job", "name: b-0"), (2, "metadata.name", "duplicate_name")),
        (two().replace("annotations: {}", "annotations: [x]"), (2, "metadata.annotations", "wrong_type")),
        (two().replace("annotations: {}", "labels: [x]"), (2, "metadata.labels", "wrong_type")),
        (INFERENCE + "---\n" + INFERENCE, (18, "file", "several_documents")),
        (INFERENCE + "x\n", (18, "file", "yaml_syntax")),
        ("kind: PodGroup\nspec: [\n", (3, "file", "yaml_syntax")),
    ],
)  # fmt: skip
def test_one_fault_each(text, expected):
    found = read_faults(text)
    assert expected in found
    assert len(found) <= 2  # only the name's own rule reports a missing name; a wrong type may be reported twice


def test_a_pool_without_default_platform_requires_one():
    rules = SpecRules(platforms={"a100": PlatformRules(), "h100": PlatformRules()})
    assert read_faults(two(), rules=rules) == [(2, "metadata.annotations.osmo/platform", "no_platform")]
    assert read_fault_codes(two(platform={"a": "a100"}), rules=rules) == ["no_platform"]
    assert read_fault_codes(two(platform="b100"), rules=rules) == ["unknown_platform"]
    assert read_valid(two(platform="h100"), rules=rules).tasks[0].platform == "h100"


@pytest.mark.parametrize("name", ["Prefill", "pre_fill", "p" * 64])
def test_a_cluster_allows_fewer_names(name):
    text = two(image="ubuntu").replace("name: b", f"name: {name}")
    assert len(read_valid(text).tasks) == 3
    assert read_faults(text, rules=SpecRules(on_cluster=True)) == [(3, "spec.subGroups[1].name", "bad_name")]


def test_pods_on_a_cluster_require_an_image():
    rules = SpecRules(on_cluster=True)
    assert read_faults(two(), rules=rules) == [(2, "metadata.annotations.osmo/image", "missing")]
    assert read_fault_codes(two(image={"a": "ubuntu"}), rules=rules) == ["missing"]
    assert read_valid(two(image="ubuntu"), rules=rules).tasks[2].image == "ubuntu"


def test_the_number_of_sub_groups_is_bounded():
    def star(size):
        return plain(
            "{minSubGroup: 1, subGroups: [" + ", ".join(f"{{name: g{n}, minMember: 1}}" for n in range(size)) + "]}"
        )

    assert len(read_valid(star(256)).tasks) == 256
    assert read_faults(star(257)) == [(3, "spec.subGroups", "too_many_tasks")]


def test_the_number_of_pods_is_bounded():
    assert len(read_valid(plain("{minMember: 5}"), rules=SpecRules(max_pods=5)).tasks) == 5
    assert read_fault_codes(plain("{minMember: 6}"), rules=SpecRules(max_pods=5)) == ["too_many_tasks"]


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL.replace("[sh]", '[sh, "kind: PodGroup"]'),
        MINIMAL.replace("[sh]", "[sh]") + "default-values:\n  text: |\n    kind: PodGroup\n",
        "{% if true %}\n" + MINIMAL + "{% endif %}\n# kind: PodGroup\n",
    ],
)
def test_a_workflow_that_mentions_a_pod_group_stays_a_workflow(text):
    spec = read_valid(text)
    assert spec.name == "hello"
    assert spec.groups[0].gang is None


@pytest.mark.parametrize("text", ["kind: Pod\nspec: {}\n", "- kind: PodGroup\n", "kind: [PodGroup]\n", "PodGroup"])
def test_other_kinds_are_read_as_workflow_files(text):
    assert set(read_fault_codes(text)) <= {"unknown_key", "missing", "wrong_type"}


def test_a_long_name_does_not_make_a_long_answer():
    text = plain(
        "{subGroups: [{name: &n " + "x" * 500_000 + ", parent: *n}, " + "{name: *n, parent: *n}, " * 2000 + "]}"
    )
    parsed = parse(text)
    assert_consistent(parsed)
    assert sum(len(fault.message) for fault in parsed.violations) < 50_000
