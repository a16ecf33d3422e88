"""The search of one pool's best allotment, in a bounded number of replays.

If all allotments fit the bound, all are tried and the answer is exact. Otherwise quota moves from leaf to leaf, in
steps that get smaller, and lending limits are lifted, halved and closed, as long as that lessens the cost. Then it
moves back as far as that costs nothing, and replays that are left try random moves from the best. The answer is then
the best of those that were tried. Of equal cost the smallest change is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from pools.domain.values.amounts import UNLIMITED
from scheduling.history.advisor.allotment import AdvicePool, Allotment
from scheduling.history.advisor.trials import Trial, Trials

FIRST_STEP = 4
"""The first moves are a quarter of the pool."""
KNOWN_IN_A_ROW = 30
"""After this number of random moves in a row that were tried before, the search ends."""
HALF = 0.5


@dataclass(frozen=True, slots=True)
class Rival:
    """An allotment by a simple rule. `trial` None: the caller's bound was reached before."""

    name: str
    allotment: Allotment
    trial: Trial | None


@dataclass(frozen=True, slots=True)
class Found:
    """The best allowed allotment of a pool. `is_exact`: every allotment of the pool was tried."""

    pool: AdvicePool
    allotment: Allotment
    trial: Trial
    rivals: tuple[Rival, ...]
    is_exact: bool
    replays: int


def find_best(
    pool: AdvicePool, trials: Trials, use: dict[str, float], replays: int, is_over: Callable[[], bool] = bool
) -> Found:
    """`use`: GPU-time by team, for the rival *by use*. `replays`: the most that may be spent, rivals included.
    `is_over` tells when the caller's time is over."""
    return _Search(pool, trials, replays, is_over).run(use)


class _Search:
    def __init__(self, pool: AdvicePool, trials: Trials, replays: int, is_over: Callable[[], bool]) -> None:
        self._pool, self._trials, self._is_over = pool, trials, is_over
        self._begun_at, self._most = trials.count, trials.count + replays
        self._best, self._trial = pool.today, trials.today
        self._tried = {pool.today}

    def run(self, use: dict[str, float]) -> Found:
        rivals = []
        for name, weights in (("equal", {}), ("by_use", use)):
            allotment = self._pool.divided_by(weights)
            trial = self._trials.today if allotment == self._pool.today else None
            if trial is None and not self._is_done():
                trial = self._trials.run(allotment)
            if trial is not None:
                self._tried.add(allotment)
                if trial.is_allowed and self._pool.permits(allotment):
                    self._keep_better(allotment, trial)
            rivals.append(Rival(name, allotment, trial))
        left = self._most - self._trials.count
        every = list(islice(self._pool.all_allotments(), left + len(self._tried) + 1))
        is_exact = len(every) <= left + len(self._tried)
        if is_exact:
            for allotment in every:
                self._try(allotment)
        else:
            self._climb()
            self._go_back()
            self._explore()
        is_exact = is_exact and all(allotment in self._tried for allotment in every)
        spent = self._trials.count - self._begun_at
        return Found(self._pool, self._best, self._trial, tuple(rivals), is_exact, spent)

    def _is_done(self) -> bool:
        return self._trials.count >= self._most or self._is_over()

    def _try(self, allotment: Allotment) -> bool:
        """Whether it is better than the best so far."""
        if allotment in self._tried or self._is_done() or not self._pool.permits(allotment):
            return False
        self._tried.add(allotment)
        trial = self._trials.run(allotment, self._trial.cost)
        return trial is not None and self._keep_better(allotment, trial)

    def _keep_better(self, allotment: Allotment, trial: Trial) -> bool:
        today = self._pool.today
        mine = (trial.cost, trial.never, allotment.distance(today), allotment.quotas, allotment.lending)
        best = (
            self._trial.cost, self._trial.never, self._best.distance(today), self._best.quotas, self._best.lending
        )  # fmt: skip
        if mine >= best:
            return False
        self._best, self._trial = allotment, trial
        return True

    def _climb(self) -> None:
        self._climb_limits()
        step = max(1, self._pool.total // FIRST_STEP)
        while not self._is_done():
            while any(self._try(moved) for moved in self._moves(step)):
                pass
            self._climb_limits()
            if step == 1:
                return
            step //= 2

    def _go_back(self) -> None:
        """Undo what of the change does not lessen the cost: a simple rule may have moved more than it needs."""
        step = max(1, self._pool.total // FIRST_STEP)
        while not self._is_done():
            while any(self._try(moved) for moved in self._moves_back(step)):
                pass
            if step == 1:
                return
            step //= 2

    def _moves_back(self, step: int) -> Iterator[Allotment]:
        quotas, today = dict(self._best.quotas), dict(self._pool.today.quotas)
        for taker in sorted(quotas, key=lambda name: (today[name] - quotas[name], name)):
            for giver in sorted(quotas):
                moved = min(step, quotas[taker] - today[taker], today[giver] - quotas[giver])
                if moved > 0:
                    yield self._best.with_quotas({**quotas, giver: quotas[giver] + moved, taker: quotas[taker] - moved})

    def _explore(self) -> None:
        random = Random((self._pool.name or "") + (self._pool.flavor or ""))  # noqa: S311  no secret; the same advice each time
        known = 0
        while known < KNOWN_IN_A_ROW and not self._is_done():
            allotment = self._random_move(random)
            known = known + 1 if allotment in self._tried else 0
            self._try(allotment)

    def _random_move(self, random: Random) -> Allotment:
        moved = self._best
        if moved.lending and random.random() < HALF:
            lender = random.choice(moved.lending)[0]
            lent = self._pool.capacity_to_lend(moved, lender)
            limit = random.randrange(lent + 1)
            moved = moved.with_lending_limit(lender, UNLIMITED if limit == lent else limit)
        moves = list(self._moves(random.randint(1, max(1, self._pool.total // FIRST_STEP))))
        if moves and (moved == self._best or random.random() < HALF):
            moved = moved.with_quotas(dict(random.choice(moves).quotas))
        return moved

    def _climb_limits(self) -> None:
        for lender, _ in self._pool.today.lending:
            lent = self._pool.capacity_to_lend(self._best, lender)
            for limit in (UNLIMITED, lent // 2, 0):
                if limit == UNLIMITED or limit < lent:
                    self._try(self._best.with_lending_limit(lender, limit))

    def _moves(self, step: int) -> Iterator[Allotment]:
        """Moves of this number of GPUs, or of all that a leaf has, from the leaves that use least of their quota to
        those whose work waits most."""
        best, least, most = self._best, self._pool.least, self._pool.most
        quotas = dict(best.quotas)
        teams, unused = self._trial.teams, self._trial.unused
        waiting = {name: teams[name]["waiting_gpu_h"] or 0 for name in quotas}
        givers = sorted(quotas, key=lambda name: (-unused[name], name))
        takers = sorted((name for name in quotas if waiting[name]), key=lambda name: (-waiting[name], name))
        for taker in takers:
            for giver in givers:
                moved = min(step, quotas[giver] - least.get(giver, 0))
                if giver != taker and moved and quotas[taker] + moved <= most[taker]:
                    yield best.with_quotas({**quotas, giver: quotas[giver] - moved, taker: quotas[taker] + moved})
