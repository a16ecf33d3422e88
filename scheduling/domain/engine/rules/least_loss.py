"""The smallest sufficient victims: of the sets that the rules allow as well as the victims in order, the one that loses
least (`victims: least_lost` of a backend; docs/waiting.md, "Which work is preempted").

Two gangs are equal victims if only their priority and their age decide which of them goes first: work of one leaf, or
guests on reserved nodes. A set of victims is allowed if

* each of its gangs is equal to one that goes in order, and each unit may be taken, one after the other;
* no leaf loses more GPUs than in order, nor more GPUs of any priority and the higher ones together;
* the gang then starts, and the shares allow the result.

Of these sets the best loses the fewest GPUs, then fewest of the highest priority, then the fewest GPU-seconds since the
last checkpoints of its gangs, else since their starts (of a start that is not known: none), then has the fewest gangs,
then is first in the usual order.
A victim that then moves to other nodes is not lost.

First each victim in order is replaced by one other gang, as long as that improves the set. Then a branch and bound
looks at all sets; of a request that needs one more place, at those of one node after the other. Where it ends within
`MAX_STEPS` steps, the result is exact, and otherwise the best set so far. It begins with the victims in order, so it
never fails where they do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from pools.domain.values.amounts import Number, is_gpu
from scheduling.domain.engine.rules.victims import AcceptResult, EvictionResult, HelpsStart, VictimSource
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.evicted import AlikeTasks, EvictedAmounts, EvictionUnit, next_eviction_unit
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex, Request, has_enough
from scheduling.domain.engine.state.records import GangState

MAX_CONSIDERED = 1000
"""The most equal victims, in order, that are considered."""

MAX_STEPS, MAX_STEPS_IN_WORLD = 1000, 200
"""The steps of the branch and bound, and of the replacements before it, each: on sums, and where only a trial in the
whole state tells whether the gang starts."""

MAX_DEPTH = 50
"""The most gangs of a set of the branch and bound."""

MAX_TRIALS = 60
"""The most sets that are started in the whole state; after them the best set so far is used."""

_PRIORITY_STEP = 10**9
"""A GPU of one priority weighs more than all GPUs of the lower ones."""

Loss = tuple[Number, Number, Number, int, list[int]]
"""The loss of a set, by which sets are compared: GPUs, GPUs weighted by priority, GPU-seconds, gangs, and the positions
of these in the usual order."""


@dataclass(frozen=True, slots=True, eq=False)
class _Option:
    """A gang that may lose work: its units in the order in which it gives them up, and the GPUs of each. `bounds` name
    the bounds on what its leaf loses that it counts for; `age`: seconds since its last checkpoint, else since its
    start. Of options with equal shapes the first one in the list of options is the best."""

    gang: GangState
    units: tuple[EvictionUnit, ...]
    gpus: tuple[Number, ...]
    bounds: tuple[object, ...]
    weight: int
    age: Number
    position: int
    shape: object


class _Pool:
    """Options in their order, and for each the least age and the least position among it and those after it."""

    def __init__(self, options: Sequence[_Option]) -> None:
        self.options = options
        self.least_later = [(option.age, option.position) for option in options]
        for n in reversed(range(len(options) - 1)):
            (age, position), (later_age, later_position) = self.least_later[n], self.least_later[n + 1]
            self.least_later[n] = min(age, later_age), min(position, later_position)


class _StartTrial(Protocol):
    """Whether the gang starts after some evictions."""

    max_steps: int

    @property
    def fits(self) -> bool:
        """Whether it starts now."""

    def evict(self, unit: EvictionUnit, sign: int = 1) -> None:
        """Evict the tasks of the unit, or with -1 let those that were evicted last return."""

    def least_missing(self) -> Number:
        """The least number of GPUs that still have to be evicted."""

    def single_nodes(self) -> Iterator[int] | None:
        """The nodes of which one has to become free enough, those that lack least first; a bound then is that of the
        last one. None where more than one place is missing, or that is not known."""


class StartSearch(Protocol):
    """The search for victims of one gang, as far as it is used here."""

    world: World
    gang: GangState
    request: Request

    def alike_tasks(self) -> AlikeTasks | None:
        """The tasks of the gang, if they have one need and quotas let them start."""

    def can_start(self) -> bool:
        """Whether the gang could start in the current state."""

    def finish(self, units: Sequence[EvictionUnit], accept: AcceptResult) -> EvictionResult | None:
        """Start the gang after these evictions, and let `accept` judge."""

    def undo(self) -> None:
        """Restore the state before the search."""


class LeastLoss:
    """The search for one gang. It leaves the state as it is."""

    def __init__(
        self,
        search: StartSearch,
        source: VictimSource,
        accept: AcceptResult,
        in_order: Sequence[EvictionUnit],
        helps: HelpsStart,
    ) -> None:
        """`in_order`: the victims in order that are needed. `helps`: whether an eviction may help where only free
        capacity is missing."""
        self._search, self._source, self._accept, self._world = search, source, accept, search.world
        self._gpu_columns = frozenset(r for r, key in enumerate(self._world.keys) if is_gpu(key))
        self._limits: dict[object, Number] = {}
        self._spent: defaultdict[object, Number] = defaultdict(int)
        self._weights: dict[int, int] = {}
        self._positions: dict[int, int] = {}
        tasks = search.alike_tasks()
        self._options = self._find_options(in_order, helps if tasks is not None else None)
        self._first = self._chosen_of(in_order)
        self._trial = self._trial_for(tasks)
        self._chosen: list[tuple[_Option, int]] = []
        """The set that is tried: options, and the number of units of each."""
        self._sums: tuple[Number, Number, Number] = (0, 0, 0)
        """Its GPUs, weighted GPUs and GPU-seconds."""
        self._left, self._trials_left = 0, MAX_TRIALS
        self._best: Loss = (0, 0, 0, 0, [])
        self._best_chosen: list[tuple[_Option, int]] | None = None

    def find(self, result: EvictionResult) -> list[EvictionUnit] | None:
        """The units of a set that loses less than this result; None if there is none. Every unit is in the order in
        which it may be taken."""
        self._best = self._loss_of(result)
        whole = _Pool(self._options)
        self._left = self._trial.max_steps
        self._replace_single(self._first, whole)
        self._left = self._trial.max_steps
        nodes = self._trial.single_nodes()
        if nodes is None:
            self._descend(whole, 0, MAX_DEPTH)
        else:
            self._free_one_of(nodes)
        return None if self._best_chosen is None else self._units_of(self._best_chosen)

    # -- the options -------------------------------------------------------------------------------------------------

    def _find_options(self, in_order: Sequence[EvictionUnit], helps: HelpsStart | None) -> list[_Option]:
        lost: dict[object, dict[int, Number]] = {}
        equals: dict[object, Iterable[GangState]] = {}
        for unit in in_order:
            kind, gangs = self._source.equal_victims(unit.gang)
            equals.setdefault(kind, gangs)
            amounts, priority = lost.setdefault(kind, {}), unit.gang.fact.priority
            amounts[priority] = amounts.get(priority, 0) + self._gpus_of(unit.gang, unit.tasks)
        found = [
            (kind, gang)
            for kind, gangs in equals.items()
            for gang in islice(gangs, MAX_CONSIDERED)
            if gang.fact.priority <= max(lost[kind]) and self._source.may_take(gang) and (helps is None or helps(gang))
        ]
        priorities = {gang.fact.priority for _kind, gang in found} | {unit.gang.fact.priority for unit in in_order}
        self._weights = {priority: _PRIORITY_STEP**n for n, priority in enumerate(sorted(priorities))}
        for kind, amounts in lost.items():
            for priority in priorities:
                self._limits[kind, priority] = sum(n for above, n in amounts.items() if above >= priority)
        options = []
        for kind, gang in found:
            if gang.index not in self._positions:
                self._positions[gang.index] = len(self._positions)
                options.append(self._option_of(gang, kind))
        return sorted(options, key=lambda option: (option.weight, option.age, option.position))

    def _option_of(self, gang: GangState, kind: object) -> _Option:
        units = tuple(self._units_in_turn(gang))
        priority = gang.fact.priority
        return _Option(
            gang,
            units,
            tuple([self._gpus_of(gang, unit.tasks) for unit in units]),
            tuple([(kind, each) for each in self._weights if each <= priority]),
            self._weights[priority],
            self._age_of(gang),
            self._positions[gang.index],
            (kind, priority, tuple([(unit.nodes, tuple([gang.needs[i] for i in unit.tasks])) for unit in units])),
        )

    def _units_in_turn(self, gang: GangState) -> Iterator[EvictionUnit]:
        """The units that the gang gives up one after the other, until nothing of it runs."""
        unit = next_eviction_unit(gang)
        if len(unit.tasks) == sum(gang.active):
            yield unit
            return
        while any(gang.active):
            unit = next_eviction_unit(gang)
            self._world.stop(gang, unit.tasks)
            yield unit
        self._search.undo()

    def _gpus_of(self, gang: GangState, tasks: Iterable[int]) -> Number:
        return sum([amount for i in tasks for r, amount in gang.requests[i] if r in self._gpu_columns])

    def _age_of(self, gang: GangState) -> Number:
        policy = self._world.policy
        began = None if policy is None else policy.work_began_at(gang)
        ran = 0 if policy is None or began is None else max(0, policy.now - began)
        return ran % gang.fact.checkpoint_every if gang.fact.checkpoint_every else ran

    def _chosen_of(self, units: Sequence[EvictionUnit]) -> list[tuple[_Option, int]]:
        counts = Counter(unit.gang.index for unit in units)
        return [(option, counts[option.gang.index]) for option in self._options if option.gang.index in counts]

    def _trial_for(self, tasks: AlikeTasks | None) -> _StartTrial:
        nodes = self._world.nodes
        if tasks is None or nodes is None:
            return _WorldTrial(self._search, self._gpu_columns)
        where = {node for option in self._options for unit in option.units for node in unit.nodes if node != NOWHERE}
        return _NodeTrial(nodes, tasks, self._gpu_columns, where)

    # -- the sets ----------------------------------------------------------------------------------------------------

    def _loss_of(self, result: EvictionResult) -> Loss:
        sums: tuple[Number, Number, Number] = (0, 0, 0)
        for gang, tasks in result.evicted:
            weight = self._weights.get(gang.fact.priority, 1)
            sums = _added(sums, self._gpus_of(gang, tasks), weight, self._age_of(gang))
        last = len(self._positions)
        return (*sums, len(result.evicted), sorted(self._positions.get(g.index, last) for g, _tasks in result.evicted))

    def _free_one_of(self, nodes: Iterator[int]) -> None:
        """Free one of these nodes; those that lack least first."""
        at: dict[int, list[_Option]] = {}
        for option in self._options:
            for node in {node for unit in option.units for node in unit.nodes}:
                at.setdefault(node, []).append(option)
        for node in nodes:
            if self._left <= 0 or self._trial.least_missing() > self._best[0]:
                return
            self._descend(_Pool(at[node]), 0, MAX_DEPTH)

    def _replace_single(self, chosen: list[tuple[_Option, int]], whole: _Pool) -> None:
        """Replace each of these gangs by one other, as long as that improves the set."""
        while self._left > 0:
            before = self._best_chosen
            for out in chosen:
                rest = [each for each in chosen if each is not out]
                taken = [self._take(option, k) for option, count in rest for k in range(count)]
                if all(taken):
                    self._descend(whole, 0, 1)
                self._release(sum(taken))
            if self._best_chosen is before or self._best_chosen is None:
                return
            chosen = self._best_chosen

    def _descend(self, pool: _Pool, start: int, depth: int) -> None:
        """Add up to `depth` gangs, from the option `start` on, to the set that is tried."""
        missing, tried = self._trial.least_missing(), set()
        for n in range(start, len(pool.options)):
            option = pool.options[n]
            if self._left <= 0 or not self._may_be_less(option, *pool.least_later[n], missing):
                return
            if option.shape in tried or any(option is other for other, _count in self._chosen):
                continue
            tried.add(option.shape)
            self._left -= 1
            taken = 0
            while taken < len(option.units) and self._take(option, taken):
                taken += 1
                if self._trial.fits and self._judge():
                    break
                if depth > 1:
                    self._descend(pool, n + 1, depth - 1)
            self._release(taken)

    def _may_be_less(self, option: _Option, age: Number, position: int, missing: Number) -> bool:
        """Whether the set that is tried may lose less than the best one, once it has options from this one on, of this
        age and position at least, and the missing GPUs."""
        low, best = _added(self._sums, missing, option.weight, age), self._best
        if low != best[:3]:
            return low < best[:3]
        gangs = len(self._chosen) + 1
        if gangs != best[3]:
            return gangs < best[3]
        return sorted([*self._chosen_positions(), position]) < best[4]

    def _chosen_positions(self) -> list[int]:
        return sorted(option.position for option, _count in self._chosen)

    def _take(self, option: _Option, k: int) -> bool:
        """Add a unit to the set that is tried; False if its leaf would lose more than in order."""
        gpus = option.gpus[k]
        if any(self._spent[bound] + gpus > self._limits[bound] for bound in option.bounds):
            return False
        for bound in option.bounds:
            self._spent[bound] += gpus
        self._sums = _added(self._sums, gpus, option.weight, option.age)
        self._trial.evict(option.units[k])
        if k:
            self._chosen.pop()
        self._chosen.append((option, k + 1))
        return True

    def _release(self, count: int) -> None:
        """Take the last `count` units out again."""
        for _ in range(count):
            option, units = self._chosen.pop()
            gpus = option.gpus[units - 1]
            for bound in option.bounds:
                self._spent[bound] -= gpus
            self._sums = _added(self._sums, -gpus, option.weight, option.age)
            self._trial.evict(option.units[units - 1], -1)
            if units > 1:
                self._chosen.append((option, units - 1))

    def _judge(self) -> bool:
        """Compare the set that is tried, which fits, with the best one. Returns False if the rules refuse it, so that a
        larger one may still be accepted."""
        if (*self._sums, len(self._chosen), self._chosen_positions()) >= self._best or self._trials_left <= 0:
            return True
        self._trials_left -= 1
        world, units = self._world, self._units_of(self._chosen)
        for unit in units:
            if not self._source.may_take(unit.gang):
                self._search.undo()
                return False
            world.stop(unit.gang, unit.tasks)
        result = self._search.finish(units, self._accept)
        if result is None:
            return False
        loss = self._loss_of(result)
        self._search.undo()
        if loss < self._best:
            self._best, self._best_chosen = loss, list(self._chosen)
        return True

    def _units_of(self, chosen: Iterable[tuple[_Option, int]]) -> list[EvictionUnit]:
        options = sorted(chosen, key=lambda each: each[0].position)
        return [unit for option, count in options for unit in option.units[:count]]


def _added(
    sums: tuple[Number, Number, Number], gpus: Number, weight: int, age: Number
) -> tuple[Number, Number, Number]:
    return sums[0] + gpus, sums[1] + gpus * weight, sums[2] + gpus * age


class _NodeTrial(EvictedAmounts):
    """On sums of the nodes."""

    max_steps = MAX_STEPS

    def __init__(self, nodes: NodeIndex, tasks: AlikeTasks, gpu_columns: Collection[int], where: Iterable[int]) -> None:
        """`where`: the nodes on which evictions may free something."""
        super().__init__(nodes, tasks)
        self._gpu_need = [(r, amount) for r, amount in tasks.need if r in gpu_columns]
        self._each = sum([amount for _r, amount in self._gpu_need])
        self._lacks = sorted([(self._lack(nodes.free[node]), node) for node in where])
        self._used: Counter[int] = Counter()
        """The evicted tasks of each node."""
        self._single: int | None = None
        """The only node that has to become free enough."""

    def evict(self, unit: EvictionUnit, sign: int = 1) -> None:
        super().evict(unit, sign)
        for node in unit.nodes:
            if node != NOWHERE:
                self._used[node] += sign

    def least_missing(self) -> Number:
        """Each missing task needs a node of its own, or the amounts of the whole task."""
        missing, node = self._missing, self._single
        if missing <= 0:
            return 0
        if node is not None:
            return self._lack(self._free.get(node, self._nodes.free[node]))
        found = [self._lack(self._free[node]) for node, count in self._used.items() if count]
        others = (lack for lack, node in self._lacks if not self._used.get(node))
        found = sorted([*found, *islice(others, missing)])[:missing]
        return sum(found) + self._each * (missing - len(found))

    def single_nodes(self) -> Iterator[int] | None:
        return self._each_node() if self._missing == 1 else None

    def _each_node(self) -> Iterator[int]:
        for _lack, node in self._lacks:
            self._single = node
            yield node
        self._single = None

    def _lack(self, have: Sequence[Number]) -> Number:
        """The GPUs that another task lacks on a node with these free amounts."""
        slots = self._nodes.slots_in(have, self._need) if has_enough(have, self._need) else 0
        return sum([max(0, amount * (slots + 1) - have[r]) for r, amount in self._gpu_need])


class _WorldTrial:
    """In the whole state: where quotas have to become free too, or tasks differ."""

    max_steps = MAX_STEPS_IN_WORLD

    def __init__(self, search: StartSearch, gpu_columns: Collection[int]) -> None:
        self._search, self._units = search, list[EvictionUnit]()
        nodes = search.world.nodes
        request = [(r, amount) for r, amount in search.request if r in gpu_columns]
        self._lacking: dict[int, Number] = {}
        if nodes is not None and not search.gang.has_choice:
            self._lacking = {r: amount - nodes.total[r] for r, amount in request}

    @property
    def fits(self) -> bool:
        world, search = self._search.world, self._search
        for unit in self._units:
            world.stop(unit.gang, unit.tasks)
        can_start = search.can_start()
        search.undo()
        return can_start

    def evict(self, unit: EvictionUnit, sign: int = 1) -> None:
        if sign > 0:
            self._units.append(unit)
        else:
            self._units.pop()
        for i, node in zip(unit.tasks, unit.nodes, strict=True):
            for r, amount in unit.gang.requests[i] if node != NOWHERE else ():
                if r in self._lacking:
                    self._lacking[r] -= sign * amount

    def least_missing(self) -> Number:
        return sum([max(0, amount) for amount in self._lacking.values()])

    def single_nodes(self) -> Iterator[int] | None:
        return None
