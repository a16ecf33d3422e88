"""Which worker of a parallel run gets which modules of tests.

A module stays whole, so that its data and servers are made once. The first worker has the modules of the shared
installation, which starts once and stops after them. The last one has the modules that mostly wait, for processes that
start, stop or are given up for dead: while they wait, the processor belongs to the others. All of them share the rest;
the quickest modules are the last of it, so that all end at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from xdist.scheduler import WorkStealingScheduling
from xdist.workermanage import WorkerController

LANES = {
    "installation": r"tests/(acceptance|browser)/|tests/ops/test_(backup|counter_page)\.py"
    r"|tests/integration/(identity/test_running_installation|webhooks/test_on_a_cluster"
    r"|serving/test_(mcp|python_client|slow_clients|static_files|webhook_server))\.py",
    "waiting": r"tests/(faults|history|ops|upgrade)/|tests/integration/dispatch/test_killed_process\.py",
}
REST = "rest"
READY_TESTS = 2
"""Of each worker: the current one, and the next one, which it must know to end the current one."""


def find_lane(nodeid: str) -> str:
    """The lane of a test."""
    return next((lane for lane, pattern in LANES.items() if re.match(pattern, nodeid)), REST)


def check(items: Sequence[pytest.Item]) -> None:
    """Raises UsageError for a test of the shared installation outside of its lane: it would start a second one."""
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()) and find_lane(item.nodeid) != "installation":
            raise pytest.UsageError(f"{item.nodeid} uses the shared installation; name its module in {__name__}")


def preferences(worker: int, workers: int) -> tuple[str, ...]:
    """The lanes of a worker, in the order in which it takes their modules."""
    if worker == 0:
        return ("installation", REST, "waiting")
    if worker == workers - 1:
        return ("waiting", REST, "installation")
    return (REST, "waiting", "installation")


class LaneScheduling(WorkStealingScheduling):
    """Hands out whole modules, one at a time."""

    def check_schedule(self) -> None:
        """Give each worker that has little to do its next module; end those for which there is none."""
        for node, ready in self.node2pending.items():
            while len(ready) < READY_TESTS and not node.shutting_down:
                if module := self._next_module(node):
                    taken = set(module)
                    self.pending[:] = [index for index in self.pending if index not in taken]
                    ready.extend(module)
                    node.send_runtest_some(module)
                else:
                    node.shutdown()

    def _next_module(self, node: WorkerController) -> Sequence[int]:
        """The tests of the module that this worker runs next; none at the end."""
        names = self.collection or []
        number = int(node.gateway.id.removeprefix("gw"))
        for lane in preferences(number, self.numnodes):
            for index in self.pending:
                if find_lane(names[index]) == lane:
                    module = names[index].partition("::")[0]
                    return [each for each in self.pending if names[each].partition("::")[0] == module]
        return []
