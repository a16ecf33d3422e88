"""Every test of a parallel run runs once, beside the other tests of its module."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lanes import LaneScheduling

TESTS = [
    f"tests/{module}.py::test_{number}"
    for module in (
        "acceptance/test_ac1", "browser/test_lists", "faults/test_a", "faults/test_b", "ops/test_up",
        "integration/test_a", "integration/test_b", "integration/test_c", "unit/test_a", "unit/test_b", "unit/test_c",
    )
    for number in range(3)
]  # fmt: skip


class Node:
    """A worker that runs one test after the other."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.queue: list[int] = []
        self.shutting_down = False
        self.ran: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take tests."""
        self.queue += indices

    def shutdown(self) -> None:
        """No more tests come."""
        self.shutting_down = True

    def run_one(self, scheduler: Any) -> bool:
        """Run one test, as a worker does that knows the next one or knows that it is the last."""
        if len(self.queue) < 2 and not (self.queue and self.shutting_down):
            return False
        index = self.queue.pop(0)
        self.ran.append(TESTS[index])
        scheduler.mark_test_complete(self, index)
        return True


def start_run(workers: int) -> tuple[Any, list[Node]]:
    """A scheduler that has handed out the first tests, and its workers."""
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"] * workers)
    scheduler: Any = LaneScheduling(config)
    nodes = [Node(number) for number in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, TESTS)
    scheduler.schedule()
    return scheduler, nodes


def run_to_the_end(scheduler: Any, nodes: list[Node]) -> None:
    """The workers run their tests in turn."""
    while sum(node.run_one(scheduler) for node in nodes):
        pass


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("dies", [False, True])
def test_each_test_runs_once(workers: int, dies: bool) -> None:
    scheduler, nodes = start_run(workers)
    ran = []
    if dies:  # in its first test, which does not run again; another worker takes its place
        ran = [scheduler.remove_node(nodes.pop(0))]
        nodes.append(Node(workers))
        scheduler.add_node(nodes[-1])
        scheduler.add_node_collection(nodes[-1], TESTS)
        scheduler.schedule()
    run_to_the_end(scheduler, nodes)
    assert Counter(ran + [test for node in nodes for test in node.ran]) == Counter(TESTS)
    assert scheduler.tests_finished


def test_the_first_worker_has_the_shared_installation_and_the_last_one_waits() -> None:
    scheduler, nodes = start_run(3)
    run_to_the_end(scheduler, nodes)
    modules = [list(dict.fromkeys(test.partition("::")[0] for test in node.ran)) for node in nodes]
    assert modules[0][:2] == ["tests/acceptance/test_ac1.py", "tests/browser/test_lists.py"]
    assert modules[1][0] == "tests/integration/test_a.py"
    assert modules[2][:3] == ["tests/faults/test_a.py", "tests/faults/test_b.py", "tests/ops/test_up.py"]
    assert sum(map(len, modules)) == 11, "no module is divided"
