"""A tree of queues with quota, limit and weight, as KAI and Run:ai have it → pools with subpools, and cohorts.

- A queue without children is a pool.
- A queue above leaves that have no limit, whole quotas within its own, and equal weights is a pool with subpools:
  nothing is lost.
- A queue without quota and limit of its own only groups: its children stand where it stood.
- Every other queue with children is a cohort. Its own quota is what its children do not have.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.names import LABEL_LIMIT, SEPARATOR
from pools.domain.structured_input.faults import join_words
from pools.domain.values.amounts import NO_LIMIT
from scheduling.moving_in.cycles import find_cycle
from scheduling.moving_in.names import NameRegister, longest_pool_name, longest_subpool_name
from scheduling.moving_in.options import ImportOptions
from scheduling.moving_in.result import BadSource, ImportResult, SourcePlace
from scheduling.moving_in.weights import whole_weights

_BEYOND_QUOTAS: Final = (
    "LOW work of its pools shares the quotas of the cohort, and no GPUs that belong to no quota. Give the cohort the "
    "rest of the cluster as its own quota if it shall."
)


@dataclass(slots=True)
class SourceQueue:
    """One queue. None as quota or limit: unlimited. `parent` is empty at the top."""

    name: str
    parent: str
    quota: Fraction | None
    limit: Fraction | None
    weight: Fraction
    place: SourcePlace
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def whole_quota(self) -> int | None:
        """Whole GPUs of the quota, at most the limit; None for unlimited."""
        amounts = [math.floor(each) for each in (self.quota, self.limit) if each is not None]
        return min(amounts) if amounts else None

    @property
    def whole_limit(self) -> int | None:
        """Whole GPUs of the limit, None for unlimited."""
        return None if self.limit is None else math.floor(self.limit)


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
        if queue.quota is None and queue.limit is None:
            text = "has no quota and no limit of its own, so it only groups: its children stand in its place"
            self.result.became(queue.place, f"{text}.")
            if len(self.children[queue.parent]) > 1:
                self.result.decide(
                    queue.place, f"{text}, and its weight {float(queue.weight):g} beside its siblings is lost."
                )
            return cohort
        return self._add_cohort(queue, cohort)

    def _fits_as_subpools(self, queue: SourceQueue) -> bool:
        children = self.children[queue.name]
        quotas = [each.whole_quota for each in children]
        own = queue.whole_quota
        return (
            all(not self.children[each.name] and each.limit is None and not each.extra for each in children)
            and len({each.weight for each in children}) == 1
            and None not in quotas
            and (own is None or sum(quota or 0 for quota in quotas) <= own)
        )

    def _add_pool(self, queue: SourceQueue, cohort: str, children: list[SourceQueue]) -> None:
        name = self.pools.claim(queue.name, queue.place)
        quota, limit = queue.whole_quota, queue.whole_limit
        gpu = {"guarantee": NO_LIMIT if quota is None else quota, "maximum": NO_LIMIT if limit is None else limit}
        body: dict[str, Any] = {"backend": self.options.backend, "resources": {"gpu": gpu}, **queue.extra}
        if cohort:
            body["cohort"] = cohort
        shorts = NameRegister("subpool", longest_subpool_name(self.options.namespace, name), self.result)
        subpools: dict[str, int] = {}
        for each in children:
            self._report_fractions(each)
            short = shorts.claim(each.name.removeprefix(f"{queue.name}{SEPARATOR}"), each.place)
            subpools[short] = each.whole_quota or 0
            self.result.became(each.place, f"pools.{name}.subpools.{short} has the quota {subpools[short]}.")
        if subpools:
            body["subpools"] = subpools
        self._keep(OwnedKind.POOL, name, body, cohort, queue)
        words = f"pools.{name} has the quota {_number(quota)} and the maximum {_number(limit)}"
        if limit == 0:
            self.result.decide(queue.place, f"{words}: its limit is 0 or is not given, so nothing may run. Confirm it.")
        else:
            self.result.became(queue.place, f"{words}.")
        if queue.quota is not None and queue.limit is not None and queue.quota > queue.limit:
            self.result.decide(queue.place, f"the quota was above the limit, so pools.{name} has the quota {quota}.")

    def _add_cohort(self, queue: SourceQueue, above: str) -> str:
        name = self.cohorts.claim(queue.name, queue.place)
        below = sum(each.whole_quota or 0 for each in self.children[queue.name])
        own = math.floor(queue.quota) if queue.quota is not None else below
        if queue.quota is None:
            self.result.decide(queue.place, f"a cohort has no unlimited quota: cohorts.{name} has none of its own.")
        elif below > own:
            self.result.decide(queue.place, f"its children have the quotas {below} together, above its own {own}.")
        row: dict[str, Any] = {"resource": "gpu", "nominal": max(0, own - below)}
        limit = queue.whole_limit
        if limit == 0:
            self.result.decide(
                queue.place, "its limit is 0 or is not given, so nothing may run below it there. Confirm it."
            )
        if limit is not None and above:
            row["borrowing_limit"] = max(0, limit - max(own, below))
        elif limit is not None:
            self.result.lost(queue.place, f"the limit {limit}: the top of a tree has no limit here.")
        body: dict[str, Any] = {"quotas": [row]}
        if above:
            body["parent"] = above
        self._keep(OwnedKind.COHORT, name, body, above, queue)
        self.result.became(
            queue.place,
            f"cohorts.{name} has {row['nominal']} GPUs of its own: {own} without the {below} of the queues below it.",
        )
        self.result.decide(queue.place, _BEYOND_QUOTAS)
        return name

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
                        queue.place, f"the weight {queue.weight} is rounded: {weight} beside its siblings."
                    )
                elif factor != 1:
                    self.result.became(queue.place, f"weight {weight}: all weights of its parent are times {factor}.")

    def _report_fractions(self, queue: SourceQueue) -> None:
        for word, amount in (("quota", queue.quota), ("limit", queue.limit)):
            if amount is not None and amount.denominator != 1:
                self.result.decide(
                    queue.place,
                    f"quotas are whole GPUs: the {word} {float(amount):g} became {math.floor(amount)}.",
                )


def _number(amount: int | None) -> str:
    return "unlimited" if amount is None else str(amount)
