"""A tree of queues with quota, limit and weight, as KAI and Run:ai have it → pools with subpools, and cohorts.

- A queue without children is a pool.
- A queue above leaves that have no limit, whole quotas within its own, and equal weights is a pool with subpools:
  nothing is lost.
- A queue without quota and limit of its own only groups: its children stand where it stood.
- Every other queue with children is a cohort. Its own quota is what its children do not have.

Amounts are by flavor; all queues of a tree have the same ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.names import LABEL_LIMIT, SEPARATOR, canonical_name
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT
from pools.domain.values.counting import counted
from scheduling.moving_in.cycles import find_cycle
from scheduling.moving_in.names import NameRegister, longest_pool_name, longest_subpool_name
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.weights import whole_weights

_BORROWING, _LENDING = LIMIT_KEYS
_BEYOND_QUOTAS: Final = (
    "LOW work of its pools shares the quotas of the cohort, and no GPUs that belong to no quota. Give the cohort the "
    "rest of the cluster as its own quota if it shall."
)


@dataclass(frozen=True, slots=True)
class QueueAmounts:
    """The GPUs of a queue in one flavor, and how many of an idle quota others may use. None: unlimited."""

    quota: Fraction | None
    limit: Fraction | None
    lending: Fraction | None = None

    @property
    def whole_quota(self) -> int | None:
        """Whole GPUs of the quota, at most the limit; None for unlimited."""
        amounts = [math.floor(each) for each in (self.quota, self.limit) if each is not None]
        return min(amounts) if amounts else None

    @property
    def whole_limit(self) -> int | None:
        """Whole GPUs of the limit, None for unlimited."""
        return None if self.limit is None else math.floor(self.limit)


@dataclass(slots=True)
class SourceQueue:
    """One queue. `parent` is empty at the top; `amounts` are by flavor, where there are none of `default` alone."""

    name: str
    parent: str
    amounts: Mapping[str, QueueAmounts]
    weight: Fraction
    place: SourcePlace
    extra: dict[str, Any] = field(default_factory=dict)
    description: str = ""

    @property
    def is_group(self) -> bool:
        """Whether it has no quota and no limit of its own."""
        return all(each == QueueAmounts(None, None) for each in self.amounts.values())

    @property
    def has_flavors(self) -> bool:
        """Whether its GPUs have flavors."""
        return list(self.amounts) != [DEFAULT_FLAVOR]

    def of(self, flavor: str) -> str:
        """The flavor in a sentence."""
        return f" of {flavor}" if self.has_flavors else ""


def add_queues(queues: list[SourceQueue], result: ImportResult, options: ImportOptions) -> None:
    """Add the pools and cohorts of the tree. Raises BadSource for a cycle."""
    _Tree(queues, result, options).add()


class _Tree:
    def __init__(self, queues: list[SourceQueue], result: ImportResult, options: ImportOptions) -> None:
        self.result, self.options = result, options
        self.queues = {each.name: each for each in queues}
        self.children: dict[str, list[SourceQueue]] = defaultdict(list)
        self.pools = NameRegister("pool", longest_pool_name(options.namespace), result)
        self.cohorts = NameRegister("cohort", LABEL_LIMIT, result)
        self.siblings: dict[str, dict[tuple[OwnedKind, str], SourceQueue]] = defaultdict(dict)
        self.bodies: dict[tuple[OwnedKind, str], dict[str, Any]] = {}
        self.places: dict[tuple[OwnedKind, str], SourcePlace] = {}

    def add(self) -> None:
        """All queues from the top down."""
        for each in self.queues.values():
            if each.parent and each.parent not in self.queues:
                self.result.decide(
                    each.place, f"the files do not have its parent {each.parent}, so it stands at the top. Confirm it."
                )
                each.parent = ""
            self.children[each.parent].append(each)
        self._refuse_cycles()
        open_ones = [(each, "") for each in reversed(self.children[""])]
        while open_ones:
            queue, cohort = open_ones.pop()
            below = self._add_queue(queue, cohort)
            open_ones += [(each, below) for each in reversed(self.children[queue.name]) if below is not None]
        self._add_weights()
        for (kind, name), body in self.bodies.items():
            self.result.add(kind, name, body, self.places[kind, name])

    def _refuse_cycles(self) -> None:
        if cycle := find_cycle({each.name: each.parent for each in self.queues.values()}):
            message = f"the parents of the queues form a cycle: {join_words(cycle).replace(', ', ' → ')}."
            raise BadSource.at(self.queues[cycle[0]].place, message)

    def _add_queue(self, queue: SourceQueue, cohort: str) -> str | None:
        """Add one queue below a cohort. Returns the cohort of its children, None where they are in it already."""
        self._report_fractions(queue)
        children = self.children[queue.name]
        if not children:
            self._add_pool(queue, cohort, [])
            return None
        if self._fits_as_subpools(queue):
            self._add_pool(queue, cohort, children)
            return None
        if queue.is_group:
            self._lose_description(queue, "queue that only groups")
            text = "has no quota and no limit of its own, so it only groups: its children stand in its place"
            self.result.became(queue.place, f"{text}.")
            if len(self.children[queue.parent]) > 1:
                self.result.decide(
                    queue.place, f"{text}, and its weight {float(queue.weight):g} among its siblings is lost."
                )
            return cohort
        return self._add_cohort(queue, cohort)

    def _fits_as_subpools(self, queue: SourceQueue) -> bool:
        children = self.children[queue.name]
        if len({each.weight for each in children}) != 1:
            return False
        for flavor, own in queue.amounts.items():
            amounts = [each.amounts[flavor] for each in children]
            quotas = [each.whole_quota for each in amounts]
            if None in quotas or any(each.limit is not None or each.lending is not None for each in amounts):
                return False
            if own.whole_quota is not None and sum(quota or 0 for quota in quotas) > own.whole_quota:
                return False
        return all(not self.children[each.name] and not each.extra for each in children)

    def _add_pool(self, queue: SourceQueue, cohort: str, children: list[SourceQueue]) -> None:
        name = self.pools.claim(queue.name, queue.place)
        self.result.queue_pools[queue.name] = name
        body: dict[str, Any] = {
            "backend": self.options.backend, "resources": self._resources(queue, name), **queue.extra
        }  # fmt: skip
        if cohort:
            body["cohort"] = cohort
        if queue.description:
            body["description"] = queue.description
            self.result.became(queue.place, f"the description of pools.{name}.")
        for flavor in queue.amounts:
            row = body["resources"]["flavors"][flavor] if queue.has_flavors else body
            row |= self._lending(queue, flavor, cohort, queue.amounts[flavor].whole_quota)
        shorts = NameRegister("subpool", longest_subpool_name(self.options.namespace, name), self.result)
        subpools: dict[str, Any] = {}
        for each in children:
            self._report_fractions(each)
            self._lose_description(each, "subpool")
            short = shorts.claim(each.name.removeprefix(f"{queue.name}{SEPARATOR}"), each.place)
            self.result.queue_pools[each.name] = canonical_name(name, short)
            quotas = {flavor: amounts.whole_quota or 0 for flavor, amounts in each.amounts.items()}
            subpools[short] = quotas if queue.has_flavors else quotas[DEFAULT_FLAVOR]
            shown = ", ".join(f"{quota}{queue.of(flavor)}" for flavor, quota in quotas.items())
            self.result.became(each.place, f"pools.{name}.subpools.{short} has the quota {shown}.")
        if subpools:
            body["subpools"] = subpools
        self._keep(OwnedKind.POOL, name, body, cohort, queue)

    def _resources(self, queue: SourceQueue, name: str) -> dict[str, Any]:
        """The amounts of a pool."""
        rows: dict[str, dict[str, int]] = {}
        for flavor, amounts in queue.amounts.items():
            quota, limit = amounts.whole_quota, amounts.whole_limit
            of = queue.of(flavor)
            if quota is None and queue.has_flavors:
                self.result.decide(
                    queue.place, f"a quota{of} is a number where there are flavors: pools.{name} has 0. Give it one."
                )
                quota = 0
            bound = {} if limit is None and queue.has_flavors else {"maximum": NO_LIMIT if limit is None else limit}
            rows[flavor] = {"guarantee": NO_LIMIT if quota is None else quota, **bound}
            words = f"pools.{name} has the quota {_number(quota)} and the maximum {_number(limit)}{of}"
            if limit == 0:
                self.result.decide(
                    queue.place, f"{words}: its limit is 0 or is not given, so nothing may run. Confirm it."
                )
            else:
                self.result.became(queue.place, f"{words}.")
            if amounts.quota is not None and amounts.limit is not None and amounts.quota > amounts.limit:
                self.result.decide(
                    queue.place, f"the quota{of} was above the limit, so pools.{name} has the quota {quota}."
                )
        return {"gpu": {}, "flavors": rows} if queue.has_flavors else {"gpu": rows[DEFAULT_FLAVOR]}

    def _lending(self, queue: SourceQueue, flavor: str, above: str, quota: int | None = None) -> dict[str, int]:
        """The lending limit, which a node has inside a cohort alone. A pool's is at most its quota."""
        lending = queue.amounts[flavor].lending
        if lending is None:
            return {}
        words = f"the lending limit {math.floor(lending)}{queue.of(flavor)}"
        if above and quota is not None and lending > quota:
            self.result.became(queue.place, f"{words} is above the quota, so it became the quota {quota}.")
            return {_LENDING: quota}
        if not above:
            self.result.lost(queue.place, f"{words}: without a cohort above it LOW work of all may use what is idle.")
            return {}
        self.result.became(queue.place, f"{words}.")
        return {_LENDING: math.floor(lending)}

    def _lose_description(self, queue: SourceQueue, what: str) -> None:
        if queue.description:
            self.result.lost(queue.place, f"a {what} has no description.")

    def _add_cohort(self, queue: SourceQueue, above: str) -> str:
        self._lose_description(queue, "cohort")
        name = self.cohorts.claim(queue.name, queue.place)
        rows = [self._cohort_row(queue, flavor, name, above) for flavor in queue.amounts]
        body: dict[str, Any] = {"quotas": rows}
        if above:
            body["parent"] = above
        self._keep(OwnedKind.COHORT, name, body, above, queue)
        self.result.decide(queue.place, _BEYOND_QUOTAS)
        return name

    def _cohort_row(self, queue: SourceQueue, flavor: str, name: str, above: str) -> dict[str, Any]:
        amounts, of = queue.amounts[flavor], queue.of(flavor)
        below = sum(each.amounts[flavor].whole_quota or 0 for each in self.children[queue.name])
        own = math.floor(amounts.quota) if amounts.quota is not None else below
        if amounts.quota is None:
            self.result.decide(queue.place, f"a cohort has no unlimited quota: cohorts.{name} has none{of} of its own.")
        elif below > own:
            self.result.decide(queue.place, f"its children have the quotas {below}{of} together, above its own {own}.")
        row: dict[str, Any] = {"flavor": flavor} if queue.has_flavors else {}
        row |= {"resource": "gpu", "nominal": max(0, own - below)}
        limit = amounts.whole_limit
        if limit == 0:
            self.result.decide(
                queue.place, f"its limit{of} is 0 or is not given, so nothing may run below it there. Confirm it."
            )
        if limit is not None and above:
            row[_BORROWING] = max(0, limit - max(own, below))
        elif limit is not None:
            self.result.lost(queue.place, f"the limit {limit}{of}: the top of a tree has no limit here.")
        row |= self._lending(queue, flavor, above)
        self.result.became(
            queue.place,
            f"cohorts.{name} has {counted(row['nominal'], 'GPU')}{of} of its own: {own} without the {below} of those "
            "below it.",
        )
        return row

    def _keep(self, kind: OwnedKind, name: str, body: dict[str, Any], above: str, queue: SourceQueue) -> None:
        self.bodies[kind, name] = body
        self.places[kind, name] = queue.place
        self.siblings[above][kind, name] = queue

    def _add_weights(self) -> None:
        for group in self.siblings.values():
            whole, factor, rounded = whole_weights({f"{kind}/{name}": q.weight for (kind, name), q in group.items()})
            for (kind, name), queue in group.items():
                weight = whole[f"{kind}/{name}"]
                body = self.bodies[kind, name]
                if kind is OwnedKind.POOL:
                    body["resources"]["gpu"]["weight"] = weight
                else:
                    body["weight"] = weight
                if f"{kind}/{name}" in rounded:
                    self.result.decide(
                        queue.place, f"the weight {queue.weight} is rounded: {weight} among its siblings."
                    )
                elif factor != 1:
                    self.result.became(queue.place, f"weight {weight}: all weights of its parent are times {factor}.")

    def _report_fractions(self, queue: SourceQueue) -> None:
        for flavor, amounts in queue.amounts.items():
            whole = (("quota", amounts.quota), ("limit", amounts.limit), ("lending limit", amounts.lending))
            for word, amount in whole:
                if amount is not None and amount.denominator != 1:
                    self.result.decide(
                        queue.place,
                        f"quotas are whole GPUs: the {word}{queue.of(flavor)} {float(amount):g} became "
                        f"{math.floor(amount)}.",
                    )


def _number(amount: int | None) -> str:
    return "unlimited" if amount is None else str(amount)
