"""How pools share too few GPUs where each may use the nodes of some platforms alone.

What is held is possible if the pools of each set together hold at most the GPUs of all platforms that one of them may
use. A maximum flow from pools to platforms decides it, and names a set that holds too much. Pools of the same platforms
are one source of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

Ways = dict[int, tuple[str, int] | None]
"""The sources that one reaches, each with the platform and the source before it; None before the first."""


def shares_in_order(
    quotas: Sequence[int], platforms: Sequence[Collection[str]], gpus: Mapping[str, int], order: Sequence[int]
) -> list[int]:
    """One pool after the other has as much of its quota as those before it leave on its platforms."""
    flow, held = _Flow(platforms, gpus), [0] * len(quotas)
    for n in order:
        held[n] = int(flow.add(n, Fraction(quotas[n])))
    return held


def shares_in_proportion(
    quotas: Sequence[int], platforms: Sequence[Collection[str]], gpus: Mapping[str, int], names: Sequence[str]
) -> list[int]:
    """Each pool has the same part of its quota, and more where those with less may not use the nodes; in whole GPUs,
    of which rounding leaves some to the largest remainders, equal ones by name."""
    exact, flow = _fill(quotas, platforms, gpus), _Flow(platforms, gpus)
    held = [int(flow.add(n, Fraction(int(part)))) for n, part in enumerate(exact)]
    for n in sorted(range(len(quotas)), key=lambda n: (held[n] - exact[n], names[n])):
        if held[n] < exact[n]:
            held[n] += int(flow.add(n, Fraction(1)))
    return held


def _fill(quotas: Sequence[int], platforms: Sequence[Collection[str]], gpus: Mapping[str, int]) -> Sequence[Fraction]:
    """The parts rise together; where a set of pools has all that it may use, its parts stay."""
    held = [Fraction(0)] * len(quotas)
    rising = {n for n, quota in enumerate(quotas) if quota}
    while rising:
        part, full = Fraction(1), set(rising)
        while True:
            trial = [part * quotas[n] if n in rising else held[n] for n in range(len(quotas))]
            broken, excess = _set_with_too_much(trial, platforms, gpus)
            if not broken:
                break
            full = broken & rising
            part -= excess / sum(quotas[n] for n in full)
        for n in full:
            held[n] = part * quotas[n]
        rising -= full
    return held


def _set_with_too_much(
    held: Sequence[Fraction], platforms: Sequence[Collection[str]], gpus: Mapping[str, int]
) -> tuple[set[int], Fraction]:
    """Pools that together hold more than their platforms have, and how much more; none if what is held is possible."""
    flow = _Flow(platforms, gpus)
    for source in range(len(flow.pools)):
        amount = sum((held[n] for n in flow.pools[source]), Fraction(0))
        if excess := amount - flow.push(source, amount):
            return {n for each in flow.ways(source)[0] for n in flow.pools[each]}, excess
    return set(), Fraction(0)


class _Flow:
    """What each source holds on each platform. `pools`: those of each source."""

    def __init__(self, platforms: Sequence[Collection[str]], gpus: Mapping[str, int]) -> None:
        alike: dict[frozenset[str], list[int]] = {}
        for n, usable in enumerate(platforms):
            alike.setdefault(frozenset(usable), []).append(n)
        self.pools = list(alike.values())
        self._usable = [sorted(each) for each in alike]
        self._source = {n: source for source, pools in enumerate(self.pools) for n in pools}
        self._free = {name: Fraction(count) for name, count in gpus.items()}
        self._on: list[dict[str, Fraction]] = [{} for _ in alike]

    def add(self, pool: int, amount: Fraction) -> Fraction:
        """Let a pool hold so much more, or as much of it as is possible while nobody else holds less."""
        return self.push(self._source[pool], amount)

    def push(self, source: int, amount: Fraction) -> Fraction:
        left = amount
        while left > 0:
            ways, last = self.ways(source)
            if last is None:
                break
            left -= self._move(list(_steps(ways, last)), left)
        return amount - left

    def ways(self, start: int) -> tuple[Ways, tuple[str, int] | None]:
        """The sources that `start` reaches, and a platform with free GPUs with the source that may use it; None
        without one."""
        found: Ways = {start: None}
        seen: set[str] = set()
        queue = deque([start])
        while queue:
            source = queue.popleft()
            for name in self._usable[source]:
                if name in seen:
                    continue
                seen.add(name)
                if self._free.get(name, 0) > 0:
                    return found, (name, source)
                for other, on in enumerate(self._on):
                    if other not in found and on.get(name, 0) > 0:
                        found[other] = name, source
                        queue.append(other)
        return found, None

    def _move(self, steps: Sequence[tuple[str, int, str | None]], most: Fraction) -> Fraction:
        """As much as the way allows: each source on it leaves a platform to the one before it."""
        amount = min(most, self._free[steps[0][0]], *(self._on[source][left] for _, source, left in steps if left))
        self._free[steps[0][0]] -= amount
        for name, source, left in steps:
            self._on[source][name] = self._on[source].get(name, Fraction(0)) + amount
            if left:
                self._on[source][left] -= amount
        return amount


def _steps(ways: Ways, last: tuple[str, int]) -> Iterator[tuple[str, int, str | None]]:
    """From the free platform back to the start: the platform that a source gets more of, and the one that it leaves;
    the start leaves none."""
    step: tuple[str, int] | None = last
    while step is not None:
        name, source = step
        step = ways[source]
        yield name, source, None if step is None else step[0]
