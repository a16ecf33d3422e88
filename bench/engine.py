"""The scheduling engine at 1×, 2× and 4× of its measured size: `python -m bench engine`, or alone
`python bench/engine.py [--sizes 1,2,4]`, JSON out.

1× is the target of docs/performance.md: 10,000 waiting gangs × 1,000 nodes × 500 queues scheduled from cold in at most
1.3 s and 1 GiB; a what-if on the resulting state, and one submission into it, in at most 1 s. Each size runs in a
process of its own, so that its memory is its own; seconds are those of one core.

At 1× a kept state lives through the same cycle and then through `INSTANTS` instants: one running gang ends, one gang
comes, and the engine runs until nothing moves. Every `COMPARED`th instant its steps are compared with those of a fresh
run.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scheduling.domain.engine.cycle import CycleResult, run_cycle
from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    ClusterFacts,
    GangFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import facts_after, queue_positions, waiting_reasons
from scheduling.garbage_collector import garbage_collector

GPU = "default/gpu"
GANGS, NODES, QUEUES = 10_000, 1_000, 500
LIMITS = {
    "cycle_s": 1.3, "what_if_s": 1.0, "submission_s": 1.0, "memory_mib": 1024,
    "instant_p50_ms": 4.0, "instant_p99_ms": 15.0,
}  # fmt: skip
GROWTH_LIMITS = {"cycle_4x_s": 6.5, "cycle_4x_to_1x": 4.5}
INSTANTS, COMPARED = 500, 50
SHAPES = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 2), (4, 8), (8, 1), (16, 1)]


def clock() -> float:
    """Seconds of one core: the work of other processes does not count."""
    return time.process_time()


def cluster(scale: int, seed: int = 7) -> ClusterFacts:
    """A cluster that is nine tenths full, every second queue has LOW work above its quota, and all new gangs wait."""
    pick = random.Random(seed)
    nodes = tuple(NodeFacts(f"n{i:05}", {GPU: 8}) for i in range(NODES * scale))
    pools = QUEUES * scale // 10
    quota = 8 * len(nodes) // (pools * 9)
    queues = [QueueFacts(f"pool{p}", created=p) for p in range(pools)]
    queues += [QueueFacts(f"pool{p}-{c}", f"pool{p}", {GPU: quota}, created=c) for p in range(pools) for c in range(9)]
    leaves = [queue.name for queue in queues if queue.parent]
    gangs: list[GangFacts] = []
    free = [8] * len(nodes)
    held: dict[str, int] = {}

    for node in range(len(nodes) * 9 // 10):
        while free[node] > 1:
            gpus = pick.choice([1, 2, 2, 4])
            if gpus > free[node]:
                continue
            queue = pick.choice(leaves[::2])
            normal = held.get(queue, 0) + gpus <= quota and pick.random() < 0.5
            if normal:
                held[queue] = held.get(queue, 0) + gpus
            name = f"r{len(gangs):06}"
            task = TaskFacts(f"{name}-0", {GPU: gpus}, state=TaskState.RUNNING, node=nodes[node].name)
            gangs.append(GangFacts(name, queue, (task,), NORMAL if normal else LOW, not normal, len(gangs)))
            free[node] -= gpus
    for i in range(GANGS * scale):
        gangs.append(_waiting_gang(pick, f"w{i:06}", leaves, len(gangs)))
    return ClusterFacts(tuple(queues), gangs=tuple(gangs), nodes=nodes)


def _waiting_gang(pick: random.Random, name: str, leaves: Sequence[str], at: int) -> GangFacts:
    count, gpus = pick.choice(SHAPES)
    queue, priority = pick.choice(leaves), pick.choice([LOW, LOW, NORMAL, NORMAL, HIGH])
    request = {GPU: gpus}
    tasks = tuple(TaskFacts(f"{name}-{i}", request) for i in range(count))
    return GangFacts(name, queue, tasks, priority, priority < NORMAL, at)


def paused_cycle(facts: ClusterFacts) -> CycleResult:
    """A cycle as the services run it: with the garbage collector paused."""
    with garbage_collector.paused():
        return run_cycle(facts)


def with_kinds(facts: ClusterFacts, kinds: int = 4) -> ClusterFacts:
    """The same cluster with nodes of several kinds of GPU, of which each queue has its part. Each waiting gang may use
    two of them."""
    keys = [f"k{n}/gpu" for n in range(kinds)]
    kind_of = {node.name: keys[i % kinds] for i, node in enumerate(facts.nodes or ())}
    nodes = tuple(replace(node, resources={kind_of[node.name]: node.resources[GPU]}) for node in facts.nodes or ())
    queues = tuple(
        queue if queue.quota is None else replace(queue, quota=dict.fromkeys(keys, queue.quota[GPU] // kinds))
        for queue in facts.queues
    )

    def of(task: TaskFacts, key: str) -> TaskFacts:
        return replace(task, request={key: task.request[GPU]})

    gangs = []
    for i, gang in enumerate(facts.gangs):
        node = gang.tasks[0].node
        if node is not None:
            gangs.append(replace(gang, tasks=tuple(of(task, kind_of[node]) for task in gang.tasks)))
            continue
        first, second = (tuple(of(task, keys[(i + n) % kinds]) for task in gang.tasks) for n in (0, 1))
        gangs.append(replace(gang, tasks=first, alternatives=(second,)))
    return replace(facts, queues=queues, gangs=tuple(gangs), nodes=nodes)


def measure_kinds(facts: ClusterFacts) -> dict[str, object]:
    """A full cycle, and every reason and position, of work that may use two of four kinds of GPU."""
    facts = with_kinds(facts)
    began = clock()
    cycle = paused_cycle(facts)
    took = clock() - began
    began = clock()
    with garbage_collector.paused():
        why, where = waiting_reasons(cycle.world), queue_positions(cycle.world)
    return {
        "kinds_cycle_s": round(took, 3),
        "kinds_explain_s": round(clock() - began, 3),
        "kinds_steps": len(cycle.steps),
        "kinds_waiting": [len(why), len(where)],
        "kinds_converged": cycle.has_converged,
    }


def measure_instants(facts: ClusterFacts, seed: int = 7) -> dict[str, object]:
    """A kept state from cold on: seconds for its first run, then milliseconds for the changes and the run of one
    instant."""
    pick = random.Random(seed)
    leaves = [queue.name for queue in facts.queues if queue.parent]
    began = clock()
    with garbage_collector.paused():
        kept = KeptState(facts)
        kept.run()
    first = clock() - began
    times, steps, equal = [], 0, 0
    for instant in range(INSTANTS):
        ends = pick.choice([gang.fact.name for gang in kept.world.gangs if gang.is_running])
        new = _waiting_gang(pick, f"x{instant:06}", leaves, 10**6 + instant)
        compared = kept.facts() if instant % COMPARED == 0 else None
        with garbage_collector.paused():
            began = clock()
            kept.ended(ends)
            kept.arrived(new)
            result = kept.run()
            times.append((clock() - began) * 1000)
        steps += len(result.steps)
        if compared is not None:
            left = tuple(gang for gang in compared.gangs if gang.name != ends)
            equal += paused_cycle(replace(compared, gangs=(*left, new))).steps == result.steps
    times.sort()
    return {
        "kept_first_run_s": round(first, 3),
        "instants": INSTANTS,
        "instant_p50_ms": round(times[INSTANTS // 2], 3),
        "instant_p99_ms": round(times[INSTANTS * 99 // 100], 3),
        "instant_max_ms": round(times[-1], 3),
        "instant_mean_ms": round(sum(times) / INSTANTS, 3),
        "instant_steps": steps,
        "instants_equal_to_fresh": [equal, len(range(0, INSTANTS, COMPARED))],
    }


def measure(scale: int) -> dict[str, object]:
    """One size, cold: a full scheduling cycle, then one submission, then a what-if, then every reason and position."""
    facts = cluster(scale)
    began = clock()
    first = paused_cycle(facts)
    cycle = clock() - began
    after = facts_after(first)
    running = next(gang for gang in after.gangs if gang.tasks[0].state is TaskState.RUNNING)
    began = clock()
    submitted = GangFacts("new", running.queue, (TaskFacts("new-0", {GPU: 1}),), LOW, True, -1)
    second = paused_cycle(replace(after, gangs=(*after.gangs, submitted)))
    submission = clock() - began
    began = clock()
    halved = tuple(replace(q, quota={GPU: 0}) if q.name == running.queue else q for q in after.queues)
    third = paused_cycle(replace(after, queues=halved))
    what_if = clock() - began
    began = clock()
    with garbage_collector.paused():
        why, where = waiting_reasons(first.world), queue_positions(first.world)
    explained = clock() - began
    with garbage_collector.paused():
        reserved = run_cycle(replace(facts, policy=PolicyFacts(now=10**7, reserve_after=3600))).world
        began = clock()
        waiting_reasons(reserved)
    explained_reserved = clock() - began
    instants = measure_instants(facts) | measure_kinds(facts) if scale == 1 else {}
    actions: dict[str, int] = {}
    for step in first.steps:
        actions[step.action.value] = actions.get(step.action.value, 0) + 1
    return {
        "scale": scale,
        "gangs": len(facts.gangs),
        "nodes": len(facts.nodes or ()),
        "queues": len(facts.queues),
        "waiting_after": len(why),
        "positions": len(where),
        "steps": actions,
        "passes": max((step.pass_number for step in first.steps), default=0),
        "converged": [first.has_converged, second.has_converged, third.has_converged],
        "cycle_s": round(cycle, 3),
        "submission_s": round(submission, 3),
        "what_if_s": round(what_if, 3),
        "explain_s": round(explained, 3),
        "explain_beside_reservations_s": round(explained_reserved, 3),
        **instants,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def run(installation: object, *, seconds: int) -> dict[str, object]:
    """All sizes, for `python -m bench engine`; the installation and the seconds are not used."""
    return measure_sizes("1,2,4")


def measure_sizes(sizes: str) -> dict[str, object]:
    """Every size, in a process of its own, and whether the first keeps the limits."""
    results = []
    for size in sizes.split(","):
        command = [sys.executable, __file__, "--one", size]
        results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    within = {name: results[0][name] <= limit for name, limit in LIMITS.items()}
    return {"limits": LIMITS | GROWTH_LIMITS, "within": within, "sizes": results}


def main() -> None:
    """Measure the requested sizes and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--one", type=int)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    print(json.dumps(measure_sizes(options.sizes), indent=2))


if __name__ == "__main__":
    main()
