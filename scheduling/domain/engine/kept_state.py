"""A cluster that is kept from one instant to the next; its owner reports gangs that came and gangs that ended.

`run` gives the steps that `run_cycle` gives for the same facts. The records, the indexes of nodes and queues and the
sorted lists stay; a change costs as much as the gang and the queues above it. Facts that change the meaning of every
number (queues, nodes, another resource, another set of allowed nodes) build the state anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pools.domain.values.amounts import Number
from scheduling.domain.engine.cycle import CycleResult, new_world, run_passes
from scheduling.domain.engine.facts import ClusterFacts, GangFacts
from scheduling.domain.engine.state.build import resource_keys, wanted_amounts
from scheduling.domain.engine.state.nodes import NOWHERE, Request
from scheduling.domain.engine.state.records import GangState
from scheduling.domain.engine.state_facts import gang_after

MAX_NEW_SIGNATURES = 2**17
"""After this number of new signatures the state is built anew, which forgets those that are not in use."""


class KeptState:
    """The state of one cluster over many instants. Changes are reported between two runs."""

    def __init__(self, facts: ClusterFacts, *, fast: bool = True) -> None:
        """`fast`: as for `run_cycle`."""
        self._is_fast = fast
        self._build(facts)

    def _build(self, facts: ClusterFacts) -> None:
        self.world = new_world(facts, fast=self._is_fast)
        self._first_signatures = self.world.signatures
        self._other_keys = frozenset(resource_keys(replace(facts, gangs=())))
        self._uses: Counter[object] = Counter()
        """The number of gangs that use each resource key and each set of allowed nodes."""
        for gang in facts.gangs:
            self._uses.update(_shapes_of(gang))
        self._requests_before: dict[int, dict[int, Number]] = {}
        """The requests of the last run, for each resource, of the queues that request something else now."""
        self._wanted = {gang.fact.name: wanted_amounts(gang) for gang in self.world.gangs if gang.choices}
        """The amounts that are counted as requests of the gangs that have several choices."""

    def facts(self) -> ClusterFacts:
        """The facts as they stand now. Its cost grows with the cluster."""
        world = self.world
        policy = None if world.policy is None else world.policy.facts()
        return replace(world.facts, gangs=tuple(gang_after(world, gang) for gang in world.gangs), policy=policy)

    def is_running(self, name: str) -> bool:
        """Whether the gang holds its minimum."""
        return self.world.gang_of[name].is_running

    def fact_of(self, name: str) -> GangFacts:
        """The facts of a gang as they were reported."""
        return self.world.gang_of[name].fact

    def started(self, name: str, at: Number, expected: Number | None, moved: Number | None = None) -> None:
        """What the last run started has its GPUs since this time and probably needs them so long (seconds), which a
        policy reads. `moved`: when it began again on other nodes."""
        if self.world.policy is not None:
            self.world.policy.note_start(self.world.gang_of[name], at, expected, moved)

    def waits(self, name: str, at: Number, expected: Number | None) -> None:
        """What the last run took back waits since this time, and would probably run so long."""
        if self.world.policy is not None:
            self.world.policy.note_wait(self.world.gang_of[name], at, expected)

    def nodes_of(self, name: str) -> list[str | None]:
        """The node of each task of a gang; None for a task that has none."""
        nodes, gang = self.world.nodes, self.world.gang_of[name]
        return [None if nodes is None or node == NOWHERE else nodes.names[node] for node in gang.node]

    def rebuild(self, facts: ClusterFacts) -> None:
        """Replace all facts: other queues, quotas, nodes. Its cost grows with the cluster."""
        self._build(facts)

    def arrived(self, fact: GangFacts) -> None:
        """A gang came, usually waiting. Its name is new."""
        if fact.name in self.world.gang_of:
            raise ValueError(f"'{fact.name}' is in the cluster already")
        shapes = _shapes_of(fact)
        if any(not self._is_known(shape) for shape in shapes):
            facts = self.facts()
            self._build(replace(facts, gangs=(*facts.gangs, fact)))
            return
        self._uses.update(shapes)
        gang = self.world.add_gang(fact)
        self._count_requests(gang, wanted := wanted_amounts(gang), 1)
        if gang.choices:
            self._wanted[fact.name] = wanted

    def ended(self, name: str) -> None:
        """A gang ended or was cancelled; it leaves the cluster with all that it holds."""
        gang = self.world.gang_of[name]
        self._uses.subtract(shapes := _shapes_of(gang.fact))
        wanted = self._wanted.pop(name, None)
        self._count_requests(gang, wanted_amounts(gang) if wanted is None else wanted, -1)
        self.world.remove_gang(gang)
        if any(not self._is_known(shape) for shape in shapes):
            self._build(self.facts())

    def run(self, now: Number | None = None) -> CycleResult:
        """Schedule until a pass changes nothing; the steps since the last run. `now`: the time for the policy, in
        seconds; None: the time of the last run."""
        if self.world.signatures - self._first_signatures > MAX_NEW_SIGNATURES:
            self._build(self.facts())
        world = self.world
        self._count_choices()
        world.begin_run()
        if world.policy is not None and now is not None:
            world.policy.now = now
        if self._requests_before:
            world.divide_shares_again(self._requests_before)
            self._requests_before = {}
        return run_passes(world)

    def _is_known(self, shape: object) -> bool:
        return self._uses[shape] > 0 or shape in self._other_keys

    def _count_choices(self) -> None:
        """Gangs that took one of their choices, or lost it, want something else since the last run."""
        for gang in dict.fromkeys(self.world.run_changed):
            now = self.world.gang_of.get(gang.fact.name)
            if (
                now is not None
                and gang in now.choices
                and self._wanted[gang.fact.name] != (wanted := wanted_amounts(now))
            ):
                self._count_requests(now, self._wanted[gang.fact.name], -1)
                self._count_requests(now, wanted, 1)
                self._wanted[gang.fact.name] = wanted

    def _count_requests(self, gang: GangState, wanted: Request, sign: int) -> None:
        for r, amount in wanted if gang.queue is not None else ():
            before = self._requests_before.setdefault(r, {})
            for above in gang.queue.path:  # type: ignore[union-attr]
                before.setdefault(above.index, above.request[r])
                above.request[r] += sign * amount


def _shapes_of(gang: GangFacts) -> frozenset[object]:
    """The resource keys and the sets of allowed nodes of its tasks. Each of them is one number of every node."""
    every = [task for tasks in gang.choices for task in tasks] if gang.alternatives else gang.tasks
    maps = {id(task.request): task.request for task in every}
    keys = {key for request in maps.values() for key in request}
    return frozenset(keys.union(task.allowed_nodes for task in every if task.allowed_nodes is not None))
