"""Which smaller forms of its work a file allows."""

from __future__ import annotations

from scheduling.domain.workflow_spec import GroupSpec, TaskSpec, WorkflowSpec
from scheduling.history.forecast.smaller_work import smaller_work


def tasks(*gpus: int, sub_groups: tuple[str, ...] = ()) -> tuple[TaskSpec, ...]:
    names = sub_groups or ("",) * len(gpus)
    return tuple(TaskSpec(f"t{i}", "image", (), gpu=n, sub_group=names[i]) for i, n in enumerate(gpus))


def forms(*groups: GroupSpec) -> list[tuple[str, str, int]]:
    spec = WorkflowSpec("w", groups)
    return [(form.code, form.text, form.spec.largest_gang_gpus) for form in smaller_work(spec)]


def test_half_and_a_quarter_of_the_gpus_of_each_task_rounded_up():
    assert forms(GroupSpec("g", tasks(8, 3))) == [
        ("gpus", "with 6 GPUs instead of 11", 6),
        ("gpus", "with 3 GPUs instead of 11", 3),
    ]


def test_a_gang_of_single_gpus_has_fewer_tasks():
    assert [gpus for _code, _text, gpus in forms(GroupSpec("g", tasks(1, 1, 1)))] == [2, 1]


def test_work_of_one_gpu_or_none_has_no_smaller_form():
    assert forms(GroupSpec("g", tasks(1))) == []
    assert forms(GroupSpec("g", tasks(0))) == []


def test_half_the_minimum_of_sub_groups_comes_first():
    gang = {"sub_groups": [{"name": name, "min_member": 1} for name in "abcd"]}
    found = forms(GroupSpec("g", tasks(1, 1, 1, 1, sub_groups=("a", "b", "c", "d")), gang=gang))
    assert found == [("minimum", "with half the minimum: it starts with 2 GPUs instead of 4", 2)]


def test_a_plain_pod_group_keeps_as_many_members_as_tasks():
    (half, quarter) = (
        form.spec.groups[0]
        for form in smaller_work(WorkflowSpec("w", (GroupSpec("g", tasks(1, 1, 1, 1), gang={"min_member": 4}),)))
    )
    assert (len(half.tasks), half.gang) == (2, {"min_member": 2})
    assert (len(quarter.tasks), quarter.gang) == (1, {"min_member": 1})
