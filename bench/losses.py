"""The table of the losses of single nodes on 1,000 nodes: what is read off for every node, and one scheduling cycle."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.engine import cluster, paused_cycle
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.judgement.single_losses import alike_nodes, lost_parts, without_nodes


def run(installation: object, *, seconds: int) -> dict[str, object]:
    """The seconds of each part."""
    facts = facts_after(paused_cycle(cluster(1)))
    lost = lost_parts(facts)
    node = max(lost, key=lambda name: (sum(part.gpus for part in lost[name]), name))
    return {
        "nodes": len(facts.nodes or ()),
        "gangs": len(facts.gangs),
        "kinds": len(alike_nodes(facts, lost, {})),
        "lost_work_s": _seconds(lambda: lost_parts(facts)),
        "kinds_s": _seconds(lambda: alike_nodes(facts, lost, {})),
        "cycle_s": _seconds(lambda: paused_cycle(without_nodes(facts, [node]))),
    }


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return round(time.process_time() - begin, 3)
