"""Remedies of a gang, and the names in them for each reader."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.facts import StartHold
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.domain.engine.reasons.remedies import Remedy
from scheduling.domain.engine.rules.world import World
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue, run_cycle_of

OURS = {"w1": "mine-1", "w2": "mine-2", "w2-again": "mine-2", "w3": "mine-3", "w4": "mine-4"}


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ((), "Work ends."),
        (("w1",), "Work ends (mine-1)."),
        (("w2", "w2-again"), "Work ends (mine-2)."),
        (("w1", "w2", "w3"), "Work ends (mine-1, mine-2, mine-3)."),
        (("w1", "w2", "w3", "w4"), "Work ends (mine-1, mine-2, mine-3, …)."),
        (("secret",), "Work ends (1 of other users)."),
        (("secret", "w1", "hidden"), "Work ends (mine-1 and 2 of other users)."),
    ],
)
def test_names_are_shown_to_readers_who_may_know_them(work, message):
    assert Remedy("Work ends", work).message(OURS.get) == message


def test_hidden_names_are_in_no_message_of_a_reason():
    """Work of others is on the nodes and in the queue; a reader without access to it sees only numbers."""
    after = run_cycle_of(
        [queue("a", 2), queue("b", 2)],
        [gang("mine", "a", 100, gpus=2), gang("w", "a", 100, gpus=2, on="n"), gang("x", "b", 100, gpus=2, on="n")],
        {"n": 4},
    )
    reason = waiting_reasons(after.world)["mine"]
    assert reason.unblock == (
        "Raise the quota of a by 2 GPUs, or end as much HIGH or NORMAL work in a (w).",
        "2 GPUs more must be free on n (w, x).",
    )
    assert [remedy.message({}.get) for remedy in reason.remedies] == [
        "Raise the quota of a by 2 GPUs, or end as much HIGH or NORMAL work in a (1 of other users).",
        "2 GPUs more must be free on n (2 of other users).",
    ]


def test_a_gang_that_runs_in_part_does_not_wait_for_itself():
    world = World(facts([queue("a", 2)], [gang("g", "a", 100, count=3, on=["n", "n", None])], {"n": 8}))
    (reason,) = [Explainer(world).explain(world.gang_of["g"])]
    assert reason.unblock == ("Raise the quota of a by 1 GPU, or end as much HIGH or NORMAL work in a.",)


@pytest.mark.parametrize(
    ("later", "line"),
    [
        (
            4,
            "The quota of a grows to 4 GPUs by itself, when subpools return theirs. To start earlier, raise this quota",
        ),
        (3, "Raise the quota of a"),
    ],
)
def test_a_quota_that_grows_by_itself_is_waited_for_if_it_is_enough(later, line):
    queues = [queue("a", 2, later_quota={GPU: later})]
    world = World(facts(queues, [gang("w", "a", 100, gpus=2, on="n"), gang("g", "a", 100, gpus=2)], {"n": 8}))
    reason = Explainer(world).explain(world.gang_of["g"])
    assert reason.unblock == (f"{line} by 2 GPUs, or end as much HIGH or NORMAL work in a (w).",)


def test_only_work_on_shared_quota_frees_quota_in_a_cohort():
    """The four GPUs that `own` holds are not lent, so its end would help no other work."""
    queues = [queue("a", 4, "org", lending_limit=0), queue("b", 2, "org")]
    work = [gang("own", "a", 100, gpus=4, on="n"), gang("busy", "b", 100, gpus=2, on="n"), gang("low", "b", gpus=2)]
    line = "Raise the quota of org by 2 GPUs, or end work under org that uses as much shared quota"
    lend = ", or raise the lending limit of a by 2 GPUs (keeps 4 GPUs idle)"
    for there, code, more in ((work, "nothing_to_borrow", ""), (work[1:], "not_lent", lend)):
        after = run_cycle_of(queues, there, {"n": 16}, cohorts=(cohort("org"),))
        reason = waiting_reasons(after.world)["low"]
        assert (reason.code, reason.queue) == (code, "org")
        assert reason.unblock == (f"{line}{more}.",)


def test_a_held_queue_has_a_remedy():
    held = queue("a", 4, hold=StartHold("offline", "The backend is offline.", "It is back"))
    after = run_cycle_of([held], [gang("g", "a")], {"n": 4})
    reason = waiting_reasons(after.world)["g"]
    assert (reason.code, reason.message, reason.unblock) == ("offline", "The backend is offline.", ("It is back.",))


class TestNeededLines:
    """A line that one line less makes superfluous is not named."""

    def test_of_lines_that_suffice_alone_one_is_enough(self):
        """Inside a higher borrowing limit it reclaims; with free nodes it needs no higher limit."""
        queues = [queue("a", 2), queue("b", 6)]
        work = [
            gang("firm", "a", 100, gpus=2, on="n"),
            gang("low", "a", gpus=2, on="n"),
            gang("other", "b", gpus=4, on="n"),
            gang("mine", "a", 100, gpus=2),
        ]
        reason = waiting_reasons(run_cycle_of(queues, work, {"n": 8}).world)["mine"]
        (line,) = reason.unblock
        assert line == (
            "Raise the quota of a by 2 GPUs, or end as much HIGH or NORMAL work in a (firm). "
            "It then takes the place of low."
        )
        message = reason.remedies[0].message({"firm": "mine-1"}.get)
        assert message.endswith("work in a (mine-1). It then takes the place of 1 of other users."), "names stay hidden"
        raised = run_cycle_of([queue("a", 4), queue("b", 6)], work, {"n": 8})
        assert ("preempt", "low") in [(step.action, step.gang) for step in raised.steps]

    def test_a_line_that_another_one_contains_is_left_out(self):
        """A higher quota of `a` is a higher quota of everything under `org`, too."""
        queues = [queue("a", 2, "org", limit=8), queue("b", 2, "org")]
        work = [
            gang("w", "a", 100, gpus=2, on="n"),
            gang("x", "b", 100, gpus=2, on="n"),
            gang("mine", "a", 100, gpus=2),
        ]
        reason = waiting_reasons(run_cycle_of(queues, work, {"n": 16}, cohorts=(cohort("org"),)).world)["mine"]
        assert reason.unblock == ("Raise the quota of a by 2 GPUs, or end as much HIGH or NORMAL work in a (w).",)
        assert (reason.code, reason.queue) == ("over_quota", "a")

    def test_lines_that_are_each_enough_are_reported_as_alternatives(self):
        """Above a higher limit it reclaims `theirs`; with a free node it stays at its limit and preempts `own`."""
        queues = [queue("a", 4, "org", borrowing_limit=0), queue("b", 0, "org", weight=0), queue("c", 3)]
        work = [
            gang("firm", "a", 100, gpus=2, on="n2"),
            gang("own", "a", gpus=1, on="n2"),
            gang("theirs", "b", gpus=2, on="n1"),
            gang("else", "c", 100, gpus=3, on="n3"),
            gang("mine", "a", 100, gpus=2),
        ]
        given = facts(queues, work, {"n1": 2, "n2": 3, "n3": 3}, cohorts=(cohort("org", 3),))
        reason = waiting_reasons(World(given))["mine"]
        higher, free = reason.unblock
        assert higher == (
            "Raise the borrowing limit of a by 1 GPU, or end as much work in a (firm, own). It then takes the place of "
            "theirs."
        )
        assert free == "2 GPUs more must be free on n1 (theirs). It then takes the place of own."
        assert not reason.needs_all_remedies
