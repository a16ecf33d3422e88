"""The key of the facts: the same for the same facts, in each process and at each time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from scheduling.domain.engine.facts import HIGH, LOW, PolicyFacts
from scheduling.domain.gang import GangTree, SubGroup
from scheduling.history.forecast.arrivals import RecentArrivals
from scheduling.history.forecast.futures import GangInfo, Present
from scheduling.history.forecast.runtimes import RunTimes, WorkKind
from scheduling.history.starts.facts_key import facts_key
from tests.unit.engine.sample_clusters import facts, gang, queue

PRINT_KEY = "from tests.unit.forecast.test_facts_key import present, facts_key; print(facts_key(present()))"


def present(now=10.0, **changes):
    nodes = frozenset(f"n{number}" for number in range(30))
    held, new = gang("held", "q", LOW, gpus=8, on="n1"), gang("new", "q", LOW, gpus=4, at=2)
    tree = GangTree(groups=[SubGroup("workers", min_member=1)])
    tasks = tuple(replace(task, allowed_nodes=nodes, group="workers") for task in new.tasks)
    new = replace(new, tasks=tasks, **{"tree": tree, **changes})
    infos = {"held": GangInfo(WorkKind("q", 8), 0.0), "new": GangInfo(WorkKind("q", 4))}
    policy = PolicyFacts(now=now, reserve_after=3600)
    return Present(
        now, facts([queue("q", 8)], [held, new], {"n1": 8}, policy=policy), infos, RunTimes(), RecentArrivals()
    )


def test_time_alone_changes_nothing():
    assert facts_key(present()) == facts_key(present(99_999.0))


@pytest.mark.parametrize(
    "change", [{"priority": HIGH}, {"queue": "other"}, {"waiting_since": 5}, {"tree": GangTree(min_member=1)}]
)
def test_any_other_fact_changes_it(change):
    assert facts_key(present()) != facts_key(present(**change))


def test_the_start_of_a_gang_changes_it():
    waits = present()
    started = replace(waits, gangs={**waits.gangs, "new": GangInfo(WorkKind("q", 4), 5.0)})
    assert facts_key(waits) != facts_key(started)


def test_a_fact_of_an_unknown_type_is_an_error():
    """It could have another text in each process, and forecasts would move for nothing."""
    with pytest.raises(TypeError, match="object has no text"):
        facts_key(present(hold=object()))


def test_each_process_finds_the_same():
    """Sets of text have another order in each process, and objects another address."""
    keys = {
        subprocess.run(
            [sys.executable, "-c", PRINT_KEY],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(keys) == 1
