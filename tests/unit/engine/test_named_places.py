"""The places that a reason names: the largest free piece, nodes that are barred, and optional pods that come first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.domain.engine.facts import NORMAL
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from scheduling.domain.engine.reasons.node_bars import excluded_bar, platform_bar, taint_bar, topology_need
from scheduling.domain.engine.rules.world import World
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import facts, gang, queue, run_cycle_of


def barred_from(nodes, fact):
    """The work may use only these of the nodes `a1`, `a2`, `n1` to `n3` and `small`."""
    return barred(fact, excluded_bar(frozenset({"a1", "a2", "n1", "n2", "n3", "small"}.difference(nodes))))


def barred(fact, *bars, names=frozenset({"a1", "a2", "n1", "n2", "n3", "small"})):
    bars = tuple(bars)
    allowed = names.difference(*(bar.nodes for bar in bars))
    return replace(fact, tasks=tuple(replace(task, allowed_nodes=allowed, bars=bars) for task in fact.tasks))


def test_the_largest_free_piece_is_named():
    running = [gang("a", "q", NORMAL, gpus=5, on="n1"), gang("b", "q", NORMAL, gpus=5, on="n2")]
    after = run_cycle_of([queue("q", 32)], [*running, gang("mine", "q", NORMAL, gpus=6)], {"n1": 8, "n2": 8})
    reason = waiting_reasons(after.world)["mine"]
    assert reason.code == "fragmented"
    assert reason.message == (
        "It asks for 6 GPUs; as much is free, but not together: 3 GPUs missing on n1 (largest: 3 GPUs on n1 and n2)."
    )


def test_a_piece_on_a_node_that_it_may_not_use_is_none():
    running = [gang("a", "q", NORMAL, gpus=5, on="n1"), gang("b", "q", NORMAL, gpus=6, on="n2")]
    mine = barred_from({"n2", "n3"}, gang("mine", "q", NORMAL, gpus=4))
    work = [*running, gang("c", "q", NORMAL, gpus=7, on="n3"), mine]
    reason = waiting_reasons(run_cycle_of([queue("q", 32)], work, {"n1": 8, "n2": 8, "n3": 8}).world)["mine"]
    assert "(largest: 2 GPUs on n2)" in reason.message


def test_nodes_that_would_do_and_are_barred_are_named():
    for allowed, size in (((), "It may use no node."), (("small",), "The largest node that it may use has 1 GPU.")):
        mine = barred_from(allowed, gang("mine", "q", NORMAL, gpus=2))
        reason = waiting_reasons(run_cycle_of([queue("q", 8)], [mine], {"a1": 8, "a2": 8, "small": 1}).world)["mine"]
        assert reason.code == "never_fits"
        sentence = "It asks for 2 GPUs; by its nodesExcluded it may not use a1 and a2, where it would fit."
        assert reason.message == f"{sentence} {size}"
        assert reason.unblock == ("Let it use a1 and a2: a shorter list nodesExcluded.",)


NODES = {"a1": 8, "a2": 4, "n1": 8, "small": 1}
PLATFORM = platform_bar("plain", frozenset({"n1", "a2"}))
EXCLUDED = excluded_bar(frozenset({"a1", "a2"}))
TAINT = taint_bar("dedicated=x", frozenset({"n1"}))
CAUSES = {
    "its platform plain": PLATFORM,
    "its nodesExcluded": EXCLUDED,
    "the taint dedicated=x": TAINT,
}
OTHER, LIST, OFF = (
    "another platform, or another label osmo.platform of the nodes",
    "a shorter list nodesExcluded",
    "the taint removed from the nodes",
)


@pytest.mark.parametrize(
    ("gpus", "count", "bars", "message", "lines"),
    [
        (8, 1, [TAINT, EXCLUDED], ("by the taint dedicated=x it may not use n1 and by its nodesExcluded it may not use "
         "a1; without one of these alone it would fit. The largest node that it may use has 1 GPU."),
         (f"Let it use n1: {OFF}, or let it use a1: {LIST}.",)),
        (8, 1, [TAINT, EXCLUDED, PLATFORM], ("by its nodesExcluded it may not use a1, where it would fit. The largest "
         "node that it may use has 1 GPU."), (f"Let it use a1: {LIST}.",)),
        (8, 2, [TAINT, EXCLUDED], ("by the taint dedicated=x it may not use n1 and by its nodesExcluded it may not use "
         "a1; only without all 2 of these it would fit. The largest node that it may use has 1 GPU."),
         (f"Let it use n1: {OFF}.", f"Let it use a1: {LIST}.")),
        (4, 1, [EXCLUDED, PLATFORM], ("by its nodesExcluded it may not use a1 and a2 and by its platform plain it may "
         "not use a2 and n1; without one of these alone it would fit. The largest node that it may use has 1 GPU."),
         (f"Let it use a1 and a2: {LIST}, or let it use a2 and n1: {OTHER}.",)),
        (9, 1, [TAINT, EXCLUDED], ("the nodes could not hold that even if they were empty. The largest node that it "
         "may use has 4 GPUs."), None),
        (8, 3, [EXCLUDED], ("the nodes could not hold that even if they were empty. The nodes that it "
         "may use hold 1 of its 3 tasks."),
         None),
    ],
)  # fmt: skip
def test_each_cause_is_reported_by_its_name_and_tried(gpus, count, bars, message, lines):
    if gpus == 9:
        bars = [TAINT, excluded_bar(frozenset({"a1"}))]
    names = frozenset(NODES)
    mine = barred(gang("mine", "q", NORMAL, gpus=gpus, count=count), *bars, names=names)
    reason = waiting_reasons(run_cycle_of([queue("q", 64)], [mine], NODES).world)["mine"]
    assert reason.code == "never_fits"
    assert reason.message.split("; ", 1)[1] == message
    if lines is None:
        return
    assert reason.unblock == lines
    (blocker,) = reason.blockers
    causes = [CAUSES[bar.cause] for bar in blocker.barred.bars]
    for gone in [causes] if blocker.barred.needs_all else [[bar] for bar in causes]:
        left = [bar for bar in bars if bar not in gone]
        assert (
            run_cycle_of([queue("q", 64)], [barred(mine, *left, names=names)], NODES).world.gang_of["mine"].is_running
        )
    for kept in causes if blocker.barred.needs_all else ():
        after = run_cycle_of([queue("q", 64)], [barred(mine, kept, names=names)], NODES)
        assert not after.world.gang_of["mine"].is_running


def test_a_required_topology_level_is_reported_and_tried():
    """Two tasks of 8 in one rack: a1 and n1 are in different racks; without the level, or in one rack, they fit."""
    mine = gang("mine", "q", NORMAL, gpus=8, count=2)
    every = frozenset(task.name for task in mine.tasks)

    def need_of(*racks):
        return topology_need("rack", "example.com/rack", every, map(frozenset, racks))

    for racks, text in (
        ([{"a1", "small"}, {"n1", "a2"}], "none of its 2 values has enough"),
        ([{"a1", "a2"}], "its only value has not enough"),
        ([], "no node has that label"),
    ):
        need = need_of(*racks)
        given = facts([queue("q", 64)], [replace(mine, topology=(need,))], NODES)
        reason = waiting_reasons(World(given))["mine"]
        assert reason.code == "never_fits"
        assert reason.message == (
            "It asks for 16 GPUs; by its required topology key rack (label example.com/rack) 2 tasks need nodes with "
            f"one value, and {text}; without that it would fit."
        )
        assert reason.unblock == ("Make the topology key rack preferred and not required.",)
    fits = need_of({"a1", "n1"})
    assert waiting_reasons(World(facts([queue("q", 64)], [replace(mine, topology=(fits,))], NODES)))["mine"].code == (
        "next_pass"
    )
    both = barred(replace(mine, topology=(need_of({"a1"}, {"n1"}),)), TAINT, names=frozenset(NODES))
    reason = waiting_reasons(World(facts([queue("q", 64)], [both], NODES)))["mine"]
    assert "only without all 2 of these it would fit" in reason.message
    assert reason.unblock == (f"Let it use n1: {OFF}.", "Make the topology key rack preferred and not required.")


def test_room_that_a_cause_keeps_it_from_now_is_reported():
    work = [gang("a", "q", NORMAL, gpus=8, on="n1"), barred(gang("mine", "q", NORMAL, gpus=4), EXCLUDED)]
    reason = waiting_reasons(run_cycle_of([queue("q", 64)], work, {"a1": 8, "n1": 8}).world)["mine"]
    assert reason.code == "fragmented"
    assert reason.message.endswith(" Besides, by its nodesExcluded it may not use a1, where it would fit now.")


def test_work_that_no_node_could_hold_has_the_reason_of_its_size():
    mine = barred_from({"n1"}, gang("mine", "q", NORMAL, gpus=9))
    reason = waiting_reasons(run_cycle_of([queue("q", 32)], [mine], {"n1": 8, "n2": 8}).world)["mine"]
    assert reason.message == (
        "It asks for 9 GPUs; the nodes could not hold that even if they were empty. The largest node that it may use "
        "has 8 GPUs."
    )


def test_optional_pods_of_running_gangs_that_come_first_are_reported():
    """The freed GPU goes to a waiting pod of `elastic`, which has the higher priority."""
    elastic = gang("elastic", "q", 60, gpus=1, count=4, on=["n", "n", None, None], tree=GangTree(1))
    work = [elastic, gang("fixed", "x", NORMAL, gpus=2, on="n"), gang("mine", "q", 50, gpus=1)]
    after = run_cycle_of([queue("q", 4), queue("x", 2)], work, {"n": 4})
    place = queue_positions(after.world)
    assert place.keys() == {"mine"}
    assert (place["mine"].overall, place["mine"].behind.pods) == (1, 2)
    assert place["mine"].behind.message() == " It is behind 2 optional pods of elastic."
    hidden = place["mine"].behind.message(lambda _name: None)
    assert hidden == " It is behind 2 optional pods of 1 other running gang."
    free = facts([queue("q", 4), queue("x", 2)], [work[0], work[2]], {"n": 3})
    assert not run_cycle_of(free.queues, free.gangs, {"n": 3}).world.gang_of["mine"].is_running


def test_optional_pods_that_can_never_start_are_not_reported():
    elastic = gang("elastic", "q", 60, gpus=1, count=2, on=["n", None], tree=GangTree(1))
    large = replace(elastic, tasks=(elastic.tasks[0], replace(elastic.tasks[1], request={"default/gpu": 9})))
    after = run_cycle_of([queue("q", 4)], [large, gang("mine", "q", 50, gpus=4)], {"n": 4})
    assert queue_positions(after.world)["mine"].behind.pods == 0
