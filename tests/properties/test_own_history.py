"""The replay of an installation's own history repeats what was recorded, when nothing is changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from pools.database.transactions import database_time
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.models import Backend, Node
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history_clock import HistoryClock, first_difference
from scheduling.models import Decision
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.properties.test_after_reconcile import ReconciledScene, change, work
from tests.support.world import apply_change

SEQUENCES = {"default": 5, "nightly": 100}

LIMIT = st.none() | st.integers(0, 3)
fault = st.one_of(
    change,
    st.tuples(st.just("offline"), st.booleans()),
    st.tuples(st.just("gpus"), st.integers(1, 2), st.integers(2, 6)),
    st.tuples(st.just("join"), st.sampled_from(["one", "two"]), st.sampled_from([None, "prod", "corp"]), LIMIT, LIMIT),
)
DAYS = st.lists(st.tuples(st.lists(work, min_size=2, max_size=5), st.lists(fault, max_size=3)), min_size=4, max_size=6)


class FaultyScene(ReconciledScene):
    """The installation, with nodes that shrink and grow and a backend that goes offline and comes back. With `limits`
    its pools are in a cohort below another one, may borrow and lend these numbers of GPUs (None: any number), and leave
    it and join it again."""

    def __init__(self, limits: tuple[int | None, int | None] | None) -> None:
        super().__init__()
        if limits is None:
            return
        apply_change(PutCohort(name="corp", body={"quotas": []}))
        apply_change(PutCohort(name="prod", body={"parent": "corp", "quotas": []}))
        for pool, cohort in (("one", "prod"), ("two", "corp")):
            self._join(pool, cohort, *limits)

    def _join(self, pool: str, cohort: str | None, borrow: int | None, lend: int | None) -> None:
        limits = (borrow, lend) if cohort else (None, None)
        patch = {"cohort": cohort, "borrowing_limit": limits[0], "lending_limit": limits[1]}
        apply_change(PatchPool(name=pool, patch=patch))

    def _do(self, what: str, *how: Any) -> None:
        if what == "offline":
            Backend.objects.filter(pk=self.backend.pk).update(offline=how[0])
        elif what == "join":
            self._join(*how)
        elif what == "gpus":
            Node.objects.filter(backend=self.backend, name=f"sim-n{how[0]}").update(gpus=how[1])
        else:
            super()._do(what, *how)

    def check(self, since: Any) -> int:
        """Replay from `since` to now; the number of steps."""
        history = read_history(self.backend, since, database_time())
        past = HistoryClock(history).run()
        assert first_difference(history.steps, past.steps) is None
        return len(past.steps)


@pytest.mark.django_db
@pytest.mark.timeout(1800)
def test_an_unchanged_replay_repeats_the_record(request: pytest.FixtureRequest) -> None:
    """From the first work on, and from an instant in the middle, when work runs and waits already."""
    nightly = bool(request.config.getoption("--nightly"))
    steps: list[int] = []

    @settings(max_examples=SEQUENCES["nightly" if nightly else "default"], deadline=None)
    @given(DAYS, st.none() | st.tuples(LIMIT, LIMIT))
    def run_days(
        days: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]], limits: tuple[int | None, int | None] | None
    ) -> None:
        with transaction.atomic():
            scene = FaultyScene(limits)
            begin = middle = database_time()
            for number, (coming, changes) in enumerate(days):
                for what, *how in (*coming, *changes):
                    scene.do(what, *how)
                reconcile_backend(scene.backend.pk)
                if number == len(days) // 2:
                    middle = database_time() + timedelta(microseconds=1)
            assert scene.check(begin) == Decision.objects.count()
            steps.append(scene.check(middle))
            transaction.set_rollback(True)

    run_days()
    assert sum(steps), "some replays of the second half had steps"
