"""Allotments: the GPU quotas of the leaves of one pool, and the lending limits of its members.

A pool is here a set of leaves with the same parent, a queue or a cohort. The sum of their quotas stays as it is, so a
proposal promises no GPU that was not promised. Lending limits belong to the members of a cohort: to the parent, if it
is a queue in a cohort, or else to the leaves that are members themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pools.domain.values.amounts import GPU, UNLIMITED, Amount, flavor_of
from scheduling.domain.engine.facts import ClusterFacts, QueueFacts
from scheduling.domain.engine.pool_quotas import gpu_keys


@dataclass(frozen=True, slots=True)
class Allotment:
    """Whole GPUs by leaf, and lending limits by lender, of the flavor of `key`; `UNLIMITED` means no limit. `also` has
    those of other flavors that go with it."""

    quotas: tuple[tuple[str, int], ...]
    lending: tuple[tuple[str, Amount], ...] = ()
    key: str = GPU
    also: tuple[Allotment, ...] = ()

    def changed_facts(self, facts: ClusterFacts) -> ClusterFacts:
        """The cluster with this allotment."""
        return replace(facts, queues=self.changed_queues(facts.queues))

    def changed_queues(self, queues: Sequence[QueueFacts]) -> tuple[QueueFacts, ...]:
        """The queues with this allotment; names that they do not have are left out."""
        quotas, lending, key = dict(self.quotas), dict(self.lending), self.key
        found = []
        for queue in queues:
            changed = queue
            if queue.name in quotas and quota_of(queue, key) != quotas[queue.name]:
                changed = replace(changed, quota={**(queue.quota or {}), key: quotas[queue.name]})
            if queue.name in lending and lending_limit_of(queue, key) != lending[queue.name]:
                changed = replace(changed, lending_limit={**queue.lending_limit, key: lending[queue.name]})
            found.append(changed)
        whole = tuple(found)
        for other in self.also:
            whole = other.changed_queues(whole)
        return whole

    def changed_names(self) -> set[str]:
        """The leaves that it divides."""
        return {name for each in (self, *self.also) for name, _ in each.quotas}

    def renamed(self, names: Mapping[str, str]) -> Allotment:
        """The same with other names of its queues."""
        return replace(
            self,
            quotas=tuple((names[name], quota) for name, quota in self.quotas),
            lending=tuple((names[name], limit) for name, limit in self.lending),
            also=tuple(each.renamed(names) for each in self.also),
        )

    def distance(self, other: Allotment) -> tuple[int, int]:
        """The number of lending limits that differ, and of GPUs of quota that move."""
        limits = sum(mine != theirs for mine, theirs in zip(self.lending, other.lending, strict=True))
        gpus = sum(abs(mine[1] - theirs[1]) for mine, theirs in zip(self.quotas, other.quotas, strict=True))
        return limits, gpus

    def with_quotas(self, quotas: Mapping[str, int]) -> Allotment:
        """The same with other quotas."""
        return replace(self, quotas=tuple((name, quotas[name]) for name, _ in self.quotas))

    def with_lending_limit(self, lender: str, limit: Amount) -> Allotment:
        """The same with another lending limit."""
        return replace(self, lending=tuple((name, limit if name == lender else old) for name, old in self.lending))


@dataclass(frozen=True, slots=True)
class AdvicePool:
    """A pool that can be divided in another way. `name`: the parent; None for queues without one. `most`: by leaf, the
    largest quota that its limit permits. `least`: by leaf, the quota that it keeps at least; 0 where it has none."""

    name: str | None
    today: Allotment
    most: Mapping[str, Amount]
    least: Mapping[str, int] = field(default_factory=dict)

    @property
    def flavor(self) -> str | None:
        """The GPU flavor that it divides; None where it has none."""
        return None if self.today.key == GPU else flavor_of(self.today.key)

    @property
    def total(self) -> int:
        """The sum of the quotas."""
        return sum(quota for _, quota in self.today.quotas)

    def permits(self, allotment: Allotment) -> bool:
        """Whether every leaf keeps its least quota."""
        return all(quota >= self.least.get(name, 0) for name, quota in allotment.quotas)

    def capacity_to_lend(self, allotment: Allotment, lender: str) -> int:
        """A lending limit of this amount or more restricts nothing."""
        return dict(allotment.quotas).get(lender, self.total)

    def all_allotments(self) -> Iterator[Allotment]:
        """Every division of the total with every lending limit. The number grows very fast; callers count."""
        names = [name for name, _ in self.today.quotas]
        least = [self.least.get(name, 0) for name in names]
        for quotas in _divisions(self.total, least, [self.most[name] for name in names]):
            allotment = self.today.with_quotas(dict(zip(names, quotas, strict=True)))
            yield from self._with_all_limits(allotment, 0)

    def _with_all_limits(self, allotment: Allotment, index: int) -> Iterator[Allotment]:
        if index == len(allotment.lending):
            yield allotment
            return
        lender = allotment.lending[index][0]
        for limit in (UNLIMITED, *range(self.capacity_to_lend(allotment, lender))):
            yield from self._with_all_limits(allotment.with_lending_limit(lender, limit), index + 1)

    def divided_by(self, weights: Mapping[str, float]) -> Allotment:
        """Today's total divided in proportion to these weights; equally if none is above 0."""
        names = [name for name, _ in self.today.quotas]
        shares = divide(self.total, [weights.get(name, 0) for name in names], [self.most[name] for name in names])
        return self.today.with_quotas(dict(zip(names, shares, strict=True)))


def quota_of(queue: QueueFacts, key: str = GPU) -> Amount:
    """The GPUs of a flavor that a leaf is promised."""
    return (queue.quota or {}).get(key, 0)


def lending_limit_of(queue: QueueFacts, key: str = GPU) -> Amount:
    """The GPUs of its quota that others may use."""
    return queue.lending_limit.get(key, UNLIMITED)


def find_pools(facts: ClusterFacts) -> list[AdvicePool]:
    """The pools in which something can change: two leaves with whole quotas, or a lending limit. By name, and one for
    each flavor of its leaves."""
    queues = {queue.name: queue for queue in facts.queues}
    parents = {queue.parent for queue in facts.queues}
    leaves: dict[tuple[str | None, str], list[QueueFacts]] = {}
    for queue in sorted(facts.queues, key=lambda each: each.name):
        if queue.name not in parents and not queue.is_external:
            for key in gpu_keys([queue]):
                if isinstance(quota_of(queue, key), int):
                    leaves.setdefault((queue.parent, key), []).append(queue)
    found = []
    for (parent, key), members in sorted(leaves.items(), key=lambda item: (item[0][0] or "", item[0][1])):
        if parent in queues:
            above = queues[parent]
            lenders = [above] if above.parent is not None and above.parent not in queues else []
        else:
            lenders = members if parent is not None else []
        quotas = tuple((leaf.name, _whole(quota_of(leaf, key))) for leaf in members)
        if len(members) < 2 and not lenders:
            continue
        today = Allotment(quotas, tuple((lender.name, lending_limit_of(lender, key)) for lender in lenders), key)
        most = {leaf.name: max(quota_of(leaf, key), leaf.limit.get(key, UNLIMITED)) for leaf in members}
        found.append(AdvicePool(parent, today, most))
    return found


def _whole(amount: Amount) -> int:
    assert isinstance(amount, int)
    return amount


def _divisions(total: int, least: Sequence[int], most: Sequence[Amount]) -> Iterator[tuple[int, ...]]:
    """Every way to write the total as this number of whole numbers, each within its bounds."""
    if len(most) == 1:
        if least[0] <= total <= most[0]:
            yield (total,)
        return
    for first in range(least[0], int(min(total, most[0])) + 1):
        for rest in _divisions(total - first, least[1:], most[1:]):
            yield (first, *rest)


def divide(total: int, weights: Sequence[float], most: Sequence[Amount]) -> list[int]:
    """Whole numbers with this sum, in proportion to the weights, by the largest remainder; none above its bound, the
    bounds together are at least the total. Without any weight above 0 all weights are equal."""
    shares = [0] * len(weights)
    left = total
    while left:
        open_ones = [i for i, share in enumerate(shares) if share < most[i]]
        of = {i: max(0.0, weights[i]) for i in open_ones}
        if not any(of.values()):
            of = dict.fromkeys(open_ones, 1.0)
        whole = sum(of.values())
        exact = {i: left * weight / whole for i, weight in of.items()}
        given = {i: int(min(amount, most[i] - shares[i])) for i, amount in exact.items()}
        spare = left - sum(given.values())
        for i in sorted(open_ones, key=lambda i: (given[i] - exact[i], i)):
            if spare and of[i] and shares[i] + given[i] < most[i]:
                given[i] += 1
                spare -= 1
        for i, amount in given.items():
            shares[i] += amount
        left = total - sum(shares)
    return shares
