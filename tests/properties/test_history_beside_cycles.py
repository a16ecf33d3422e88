"""The replay of a history in which people change things while cycles run, processes die and nodes are lost: the clock
does not tell what a cycle had seen."""

from __future__ import annotations

import contextlib
import random
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from pools.database.transactions import database_time
from pools.domain.changes.subpools import ResizeSubpool
from pools.domain.errors import DomainError
from pools.models import Backend, Node
from scheduling.domain.changes.workflows import CancelWorkflow, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history import RecordedHistory, RecordedStep
from scheduling.history.replay.history_clock import HistoryClock, StepDifference, first_difference
from scheduling.models import Decision, Workflow
from scheduling.services.simulated import apply_plan, reconcile
from scheduling.services.simulated.dirty import Scope
from scheduling.services.workflows.submission import Submission, submit
from tests.properties.test_after_reconcile import elastic_gang_file, job_file
from tests.support import world
from tests.support.nightly_parts import samples
from tests.support.threads import run_concurrently

OF_A_DAY = (81, 118)
OF_A_NIGHT = sorted({*range(1, 141)} - {*OF_A_DAY})
WITH_LOSSES = 101
"""From this seed on the victims are those that lose least, and work saves its state and has time limits."""
ROUNDS = 9
PRIORITIES = (Priority.LOW, Priority.LOW, Priority.NORMAL, Priority.HIGH)


class Died(BaseException):
    """The process of a cycle is killed."""


class BusyScene:
    """An installation of its own in which everything is drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.has_losses = seed >= WITH_LOSSES
        self.losses = random.Random(f"losses of {seed}")
        self.backend = world.make_backend(f"sim{seed}", namespace=f"ns{seed}", nodes=3, gpus=4, auto_end=True)
        Backend.objects.filter(pk=self.backend.pk).update(
            reserve_after=self.dice.choice([None, 1, 2]),
            ageing=self.dice.choice([None, 1]),
            victims="least_lost" if self.has_losses else "youngest",
        )
        self.pools = [f"one{seed}", f"two{seed}"]
        world.make_pool(self.pools[0], 6, on=self.backend, a=3, b=1)
        world.make_pool(self.pools[1], 6, on=self.backend, c=4)
        self.subpools = [f"{self.pools[0]}--a", f"{self.pools[0]}--b", f"{self.pools[1]}--c"]
        self.admin = world.admin_actor()

    def act(self) -> None:
        """One change by a person; a refusal changes nothing."""
        what = self.dice.choice(
            [self._submit] * 8 + [self._cancel, self._end, self._end, self._resize, self._lose, self._offline]
        )
        with contextlib.suppress(DomainError):
            what()

    def _submit(self) -> None:
        pool, priority = self.dice.choice(self.pools + self.subpools), self.dice.choice(PRIORITIES)
        if self.dice.random() < 0.25:
            file = elastic_gang_file(self.dice.randint(2, 5), self.dice.randint(1, 2))
        else:
            file = job_file(self.dice.randint(1, 4), self.dice.randint(1, 2))
        if self.dice.random() < 0.4:
            file = file.replace("  name: job\n", "  name: job\n  labels: {osmo/simulated-runtime: 1s}\n", 1)
        elif self.has_losses and self.losses.random() < 0.3:
            file = file.replace("  name: job\n", "  name: job\n  labels: {osmo/checkpoint-every: 1s}\n", 1)
        if self.has_losses and self.losses.random() < 0.4:
            limit = self.losses.choice(["exec_timeout: 1s", "exec_timeout: 3s", "queue_timeout: 2s"])
            file = file.replace("  name: job\n", f"  name: job\n  timeout: {{{limit}}}\n", 1)
        submit(actor=self.admin, pool=pool, submission=Submission(file, priority))

    def _live(self, *statuses: str) -> str:
        names = Workflow.objects.filter(root_pool__name__in=self.pools, status__in=statuses).values_list(
            "name", flat=True
        )
        return self.dice.choice(sorted(names) or ["none-1"])

    def _cancel(self) -> None:
        world.apply_change(CancelWorkflow(name=self._live("PENDING", "RUNNING")), actor=self.admin)

    def _end(self) -> None:
        status = self.dice.choice([TaskStatus.COMPLETED, TaskStatus.FAILED])
        world.apply_change(EndWorkflow(name=self._live("RUNNING"), status=status))

    def _resize(self) -> None:
        parent, _, short = self.dice.choice(self.subpools).partition("--")
        world.apply_change(ResizeSubpool(parent=parent, subpool_name=short, quota=self.dice.randint(0, 4)))

    def _lose(self) -> None:
        node = f"{self.backend.name}-n{self.dice.randint(1, 3)}"
        Node.objects.filter(backend=self.backend, name=node).update(gpus=self.dice.choice([1, 4, 4]))

    def _offline(self) -> None:
        offline = self.dice.random() < 0.2
        Backend.objects.filter(pk=self.backend.pk).update(offline=offline)

    def cycle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reconcile, perhaps while people change things, and perhaps not to the end."""
        beside = self.dice.randint(0, 2) if self.dice.random() < 0.7 else 0
        units_until_death = self.dice.randint(1, 2) if self.dice.random() < 0.3 else None
        run, together = reconcile._run_cycle, apply_plan.PlanExecution._apply_together

        def plan(facts: Any) -> Any:
            nonlocal beside
            changes, beside = beside, 0
            for _ in range(changes):
                (result,) = run_concurrently([self.act])
                assert not isinstance(result, Exception), result
            return run(facts)

        def apply(execution: Any, units: Any) -> None:
            nonlocal units_until_death
            if units_until_death == 0:
                raise Died
            together(execution, units)
            units_until_death = None if units_until_death is None else units_until_death - 1

        with monkeypatch.context() as patch:
            patch.setattr(reconcile, "_run_cycle", plan)
            patch.setattr(apply_plan.PlanExecution, "_apply_together", apply)
            patch.setattr(apply_plan, "MAX_STARTS_TOGETHER", 1)
            with contextlib.suppress(Died):
                reconcile.reconcile_backend(self.backend.pk, scope=self.dice.choice(list(Scope)))

    def check(self, since: datetime) -> int:
        """Replay from `since` to now; the number of steps."""
        history = read_history(self.backend, since, database_time())
        assert history.exact_since is None
        replayed = HistoryClock(history).run().steps
        different = first_difference(history.steps, replayed)
        assert different is None, describe(history, replayed, different)
        return len(history.steps)


def describe(history: RecordedHistory, replayed: list[RecordedStep], different: StepDifference) -> str:
    """The cycle at which they differ: what it recorded, and what the replay did."""
    step = different.recorded or different.replayed
    assert step is not None
    cycle = [each for each in history.cycles if each.time == step.time]
    both = [[each for each in steps if each.time == step.time] for steps in (history.steps, replayed)]
    return f"{cycle}\nrecorded {both[0]}\nreplayed {both[1]}"


def live(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Live through one history and replay it, from its beginning and from the middle of it; the number of steps."""
    scene = BusyScene(seed)
    begin = middle = database_time()
    for number in range(ROUNDS):
        for _ in range(scene.dice.randint(2, 5)):
            scene.act()
        scene.cycle(monkeypatch)
        if scene.dice.random() < 0.3:
            time.sleep(1.1)  # work ends, and waits count in seconds
        if number == ROUNDS // 2:
            middle = database_time() + timedelta(microseconds=1)
    steps = scene.check(begin)
    assert steps == Decision.objects.filter(backend=scene.backend).count()
    scene.check(middle)
    return steps


@pytest.mark.parametrize("seed", samples(OF_A_DAY, OF_A_NIGHT))
def test_an_unchanged_replay_repeats_what_happened_beside_cycles(
    ledger: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    live(seed, monkeypatch)
