"""Verdicts on a tree of cohorts: the cost of computing one, without the database.

A tree of 2,000 nodes and depth 12, a third of the nodes with limits, filled until some work is refused. `verdict`
checks for one leaf whether a request of GPUs and two more resources fits, with the reason; `start` checks,
reserves and releases them; `submission` is the most that a pool could ever hold. Each 2,000 times. `flavors` is the
verdict in a tree of the same size whose every node has quotas of four GPU flavors, on a request that may use any of
them: all four are judged, with the reason of each.

Moreover, 20 times each: `naive` is the rule T ≥ −borrowing limit (design, Q2) over the whole tree; `read` makes the
tree from facts, once per transaction of starts; `numbers` computes every number of every node, for a page. Milliseconds
are those of one core, independent of other processes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

from bench.installation import Installation
from pools.domain.quota.forest import CohortQuotaFacts, PoolQuotaFacts, build_forest, pool_key
from pools.domain.quota.node_numbers import node_numbers
from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree
from pools.domain.values.amounts import GPU, UNLIMITED, Amount, flavor_of, gpu_key

NODES, DEPTH, LEAVES = 2_000, 12, 0.6
TIMES, FEW = 2_000, 20
LIMIT_MS, FLAVORS_LIMIT_MS = 2.0, 0.1
FLAVORS = tuple(gpu_key(f"k{n}") for n in range(4))
OTHERS = ("default/cpu", "default/memory")


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Milliseconds, p50 and p99 and the worst; the installation and the seconds are not used."""
    return measure(NODES, DEPTH)


def measure(nodes: int, depth: int) -> dict[str, Any]:
    """The same for a tree of another size."""
    pick = random.Random(5)
    cohorts, pools = _random_facts(nodes, depth, pick)
    tree = build_forest(cohorts, pools)
    leaves = [pool_key(pool.name) for pool in pools]
    requests = [(pick.choice(leaves), {GPU: pick.randint(1, 16), OTHERS[0]: 4, OTHERS[1]: 64}) for _ in range(TIMES)]
    refused = sum(bool(tree.shortfalls(leaf, {GPU: request[GPU]})) for leaf, request in requests)
    column = tree.columns[GPU]

    def start(leaf: str, request: Mapping[str, int]) -> None:
        x = tree.index[leaf]
        if not tree.shortfalls(leaf, {GPU: request[GPU]}):
            column.reserve(x, request[GPU])
            column.release(x, request[GPU])

    found = {
        "nodes": len(tree.names),
        "depth": max(_node_depth(tree, leaf) for leaf in leaves),
        "refused": round(refused / TIMES, 2),
        "verdict": _time_calls(lambda each: tree.shortfalls(*each), requests),
        "start": _time_calls(lambda each: start(*each), requests),
        "submission": _time_calls(lambda each: column.potential(tree.index[each[0]]), requests),
        "naive": _time_calls(lambda each: _fits_naively(tree, *each), requests[:FEW]),
        "read": _time_calls(lambda _: build_forest(cohorts, pools), requests[:FEW]),
        "numbers": _time_calls(lambda _: node_numbers(tree, GPU), requests[:FEW]),
    }
    return (
        found
        | {"limit_ms": LIMIT_MS, "within": found["verdict"]["p99_ms"] <= LIMIT_MS}
        | _measure_flavors(nodes, depth)
    )


def _measure_flavors(nodes: int, depth: int) -> dict[str, Any]:
    pick = random.Random(5)
    cohorts, pools = _random_facts(nodes, depth, pick, FLAVORS)
    tree = build_forest(cohorts, pools)
    leaves = [pool_key(pool.name) for pool in pools]
    requests = [(pick.choice(leaves), pick.randint(1, 16)) for _ in range(TIMES)]

    def judge(leaf: str, gpus: int) -> list[bool]:
        return [bool(tree.shortfalls(leaf, {key: gpus})) for key in FLAVORS]

    refused = sum(all(judge(*request)) for request in requests)
    took = _time_calls(lambda each: judge(*each), requests)
    return {
        "flavors": took,
        "flavors_refused": round(refused / TIMES, 2),
        "flavors_limit_ms": FLAVORS_LIMIT_MS,
        "flavors_within": took["p99_ms"] <= FLAVORS_LIMIT_MS,
    }


def _random_facts(
    nodes: int, depth: int, pick: random.Random, keys: Sequence[str] = (GPU,)
) -> tuple[list[CohortQuotaFacts], list[PoolQuotaFacts]]:
    """Cohorts in a random tree down to the level above `depth`, and pools below them, with quotas of these GPUs."""
    inner = round(nodes * (1 - LEAVES))
    cohorts, deep = [CohortQuotaFacts("c0", None, _random_quotas(pick, keys, has_parent=False))], [1]
    for i in range(1, inner):
        above = i - 1 if i < depth - 1 else pick.randrange(i)
        while deep[above] >= depth - 1:
            above = pick.randrange(i)
        cohorts.append(CohortQuotaFacts(f"c{i}", f"c{above}", _random_quotas(pick, keys, has_parent=True)))
        deep.append(deep[above] + 1)
    pools = []
    for i in range(nodes - inner):
        name, cohort = f"p{i}", f"c{depth - 2 if i == 0 else pick.randrange(inner)}"
        kinds = {flavor_of(key): _random_pool(pick, name, cohort) for key in keys}
        (first, *others) = kinds.values()
        pools.append(replace(first, kinds=kinds) if others else first)
    return cohorts, pools


def _random_pool(pick: random.Random, name: str, cohort: str) -> PoolQuotaFacts:
    quota = pick.randint(0, 8)
    limit = pick.choice([UNLIMITED, UNLIMITED, pick.randint(2, 12)])
    use = pick.randint(0, quota + 4)
    return PoolQuotaFacts(name, cohort, quota, limits=NodeQuota(0, limit), quota=quota, usage=use)


def _random_quotas(pick: random.Random, keys: Sequence[str], *, has_parent: bool) -> dict[str, dict[str, int | None]]:
    def limit() -> int | None:
        return pick.choice([None, None, pick.randint(4, 40)]) if has_parent else None

    return {
        key: {"nominal": pick.randint(0, 4) * size, "borrowing_limit": limit(), "lending_limit": limit()}
        for key, size in (*((key, 1) for key in keys), (OTHERS[0], 1000), (OTHERS[1], 2**30))
    }


def _node_depth(tree: QuotaTree, name: str) -> int:
    depth, x = 1, tree.index[name]
    while (x := tree.parents[x]) >= 0:
        depth += 1
    return depth


def _fits_naively(tree: QuotaTree, leaf: str, request: Mapping[str, int]) -> bool:
    """T(x) ≥ −borrowing limit at every node, from the leaves up, with the request in it (design, Q2)."""
    below: dict[str, list[QuotaNode]] = {}
    for node in tree.nodes.values():
        if node.parent is not None:
            below.setdefault(node.parent, []).append(node)
    tops = [node for node in tree.nodes.values() if node.parent is None]
    for key in tree.keys:
        holds = [True]

        def t(node: QuotaNode, key: str = key, holds: list[bool] = holds) -> Amount:
            own = tree.columns[key].own[tree.index[node.name]] + (request.get(key, 0) if node.name == leaf else 0)
            quota = node.quotas.get(key)
            found: Amount = (quota.nominal if quota else 0) - own
            for child in below.get(node.name, ()):
                lending = child.quotas[key].lending_limit if key in child.quotas else UNLIMITED
                found += min(lending, t(child))
            borrowing = 0 if node.parent is None else quota.borrowing_limit if quota else UNLIMITED
            holds[0] &= found >= -borrowing
            return found

        for top in tops:
            t(top)
        if not holds[0]:
            return False
    return True


def _time_calls(call: Callable[[Any], object], arguments: list[Any]) -> dict[str, float]:
    took = []
    for argument in arguments:
        begin = time.process_time()
        call(argument)
        took.append((time.process_time() - begin) * 1000)
    return {
        "p50_ms": round(median(took), 4),
        "p99_ms": round(quantiles(took, n=100, method="inclusive")[-1], 4),
        "worst_ms": round(max(took), 4),
    }
