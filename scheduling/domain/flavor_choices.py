"""Which GPU flavors a gang may use: its choices, the preferred one first (design kinds, section 2).

A gang uses one flavor, unless its tasks name different ones. A pool that names no flavors has one, `default`, so there
is one choice for everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from pools.domain.values.amounts import DEFAULT_FLAVOR
from scheduling.domain.gang import GangTree, tree_from_json
from scheduling.domain.workflow_spec import GroupSpec

MAX_CHOICES = 16
"""The most choices of a gang whose tasks name different flavors; later ones are not tried."""

FlavorNeed = Mapping[str, int]
"""GPUs by flavor."""

GangNeeds = Sequence[FlavorNeed]
"""What a gang needs to start, in each of its choices."""

FlavorCounts = Mapping[str, tuple[int, int]]
"""By flavor: the GPUs that a workflow holds, and those that its largest unfinished gang needs."""


FlavorHolders = Mapping[str, tuple[str, ...]]
"""The flavors that a waiting gang does not get yet, with the names of the gangs that have to start before."""


@dataclass(frozen=True, slots=True)
class TaskGpus:
    """What one task asks for: its GPUs, the flavors that it names (none: all), its platform, and the leaf of its gang's
    tree."""

    gpus: int
    flavors: tuple[str, ...] = ()
    platform: str = ""
    sub_group: str = ""


@dataclass(frozen=True, slots=True)
class PoolFlavors:
    """The flavors of a pool in its order of preference; none for a pool without flavors. `on_platforms` are the flavors
    of the nodes of each platform, where nodes are known."""

    names: tuple[str, ...] = ()
    on_platforms: Mapping[str, Collection[str]] = field(default_factory=dict)

    def permitted(self, task: TaskGpus) -> tuple[str, ...]:
        """The flavors that the task may use, the preferred one first. None of the pool's if it names only flavors that
        the pool no longer has. A platform narrows them where its nodes have one of them."""
        if not self.names:
            return (DEFAULT_FLAVOR,)
        allowed = [name for name in task.flavors if name in self.names] if task.flavors else self.names
        there = self.on_platforms.get(task.platform, ())
        return tuple(name for name in allowed if name in there) or tuple(allowed)

    def choices(self, tasks: Sequence[TaskGpus]) -> tuple[tuple[str, ...], ...]:
        """The choices of a gang: in each, the flavor of every task, in the order of the tasks. A task without GPUs has
        the `default` one, which counts nothing. Empty if some task may use no flavor."""
        lists = [self.permitted(task) if task.gpus else () for task in tasks]
        kinds = list(dict.fromkeys(names for task, names in zip(tasks, lists, strict=True) if task.gpus))
        if not all(kinds):
            return ()
        if not kinds:
            return ((DEFAULT_FLAVOR,) * len(tasks),)
        found = []
        for flavors in _together(kinds):
            flavor_of = dict(zip(kinds, flavors, strict=True)) | {(): DEFAULT_FLAVOR}
            found.append(tuple(flavor_of[names] for names in lists))
        return tuple(found)

    def choices_or_named(self, tasks: Sequence[TaskGpus]) -> tuple[tuple[str, ...], ...]:
        """The same of work that was admitted earlier: a gang that names no flavor that the pool still has keeps the
        first that it names, of which there is no quota."""
        return self.choices(tasks) or (tuple((task.flavors or self.names)[0] for task in tasks),)

    def needs(self, tasks: Sequence[TaskGpus], total: int, tree: GangTree | None) -> GangNeeds:
        """The GPUs by flavor that a gang needs at once, for each choice. `total` is what it needs altogether: of an
        elastic gang, the least that satisfies its `tree`."""
        gpus, found = [task.gpus for task in tasks], []
        for flavors in self.choices(tasks):
            used = {flavor for flavor, number in zip(flavors, gpus, strict=True) if number}
            if len(used) < 2:
                found.append({used.pop() if used else DEFAULT_FLAVOR: total})
            elif tree is None:
                found.append(sum_by_flavor(gpus, flavors))
            else:
                found.append({name: _least_of(name, flavors, tasks, tree) for name in sorted(used)})
        return found

    def needs_of(self, group: GroupSpec) -> GangNeeds:
        """The same of a group of a workflow file."""
        if not self.names:
            return ({DEFAULT_FLAVOR: group.gpus},)
        requested = [
            TaskGpus(task.gpu, task.gpu_flavors, task.platform or "default", task.sub_group) for task in group.tasks
        ]
        tree = None if group.gang is None else tree_from_json(group.gang, len(group.tasks))
        return self.needs(requested, group.gpus, tree)

    def claims(self, groups: Iterable[GroupSpec]) -> FlavorCounts:
        """What new work counts by flavor, where the pool has flavors: it holds nothing, and needs its GPUs in each
        flavor that it may use."""
        return counts_by_flavor(({}, self.needs_of(group)) for group in groups) if self.names else {}


def _together(kinds: Sequence[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
    """The flavor of each list of permitted ones: the same for all where one is common, else each its own."""
    common = [name for name in kinds[0] if all(name in names for names in kinds)]
    if common:
        return [(name,) * len(kinds) for name in common]
    return islice(product(*kinds), MAX_CHOICES)


def _least_of(flavor: str, flavors: Sequence[str], tasks: Sequence[TaskGpus], tree: GangTree) -> int:
    mine = (task for task, name in zip(tasks, flavors, strict=True) if name == flavor)
    return tree.min_amount({tree.leaf_of(task.sub_group): task.gpus for task in mine})


def flavors_beside(choices: Sequence[Sequence[str]], held: Sequence[str]) -> tuple[str, ...]:
    """The flavors of a gang some of whose tasks have one already (`held`; empty for the others): these keep it, and the
    others follow them."""
    like = (each for each in choices if all(a in {"", b} for a, b in zip(held, each, strict=True)))
    return tuple(a or b for a, b in zip(held, next(like, choices[0]), strict=True))


def choices_beside(choices: Sequence[tuple[str, ...]], held: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], int]:
    """The choices of a gang of whose tasks some may have a flavor already, and the place of its own among them."""
    if not any(held):
        return tuple(choices), 0
    own = flavors_beside(choices, held)
    found = tuple(choices) if own in choices else (own,)
    return found, found.index(own)


def flavors_before(choices: Sequence[Sequence[str]], chosen: Sequence[str]) -> list[str]:
    """The earlier choices of a gang that got `chosen`, each by the names of its other flavors: `h100`."""
    before = choices[: choices.index(chosen)] if chosen in choices else ()
    return [" and ".join(dict.fromkeys(name for name in each if name not in chosen)) for each in before]


def counts_by_flavor(gangs: Iterable[tuple[FlavorNeed, GangNeeds]]) -> FlavorCounts:
    """The counts of a workflow from what each of its unfinished gangs holds and needs. A gang that has no flavor yet
    needs its GPUs in each one that it may use."""
    held: dict[str, int] = {}
    needed: dict[str, int] = {}
    for holds, needs in gangs:
        for flavor, gpus in holds.items():
            held[flavor] = held.get(flavor, 0) + gpus
        for need in needs:
            for flavor, gpus in need.items():
                needed[flavor] = max(needed.get(flavor, 0), gpus)
    return {flavor: (held.get(flavor, 0), needed.get(flavor, 0)) for flavor in sorted({*held, *needed})}


def sum_by_flavor(gpus: Iterable[int], flavors: Iterable[str]) -> dict[str, int]:
    """The GPUs of some tasks by flavor, without flavors that have none."""
    found: dict[str, int] = {}
    for number, flavor in zip(gpus, flavors, strict=True):
        if number:
            found[flavor] = found.get(flavor, 0) + number
    return found
