"""The check whether work could ever start on the nodes of its backend, for the answer of a submission.

The rule is that of the queue (`never_fits`): could the gang start if all nodes were empty? The engine tells; most
work is found to fit by counting alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pools.database.prepared import read_rows
from pools.domain.configuration.flavors import parts_among
from pools.domain.values import amounts
from pools.domain.values.amounts import DEFAULT_FLAVOR, gpu_key
from pools.models import Backend, Node, Pool
from scheduling.domain.engine.cycle import new_world
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, QueueFacts
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.workflow_spec import GroupSpec, WorkflowSpec
from scheduling.selectors.queue.live_facts import (
    CPU,
    MEMORY,
    STORAGE,
    UNITS,
    SharedObjects,
    node_facts,
    proposed_variants,
)
from scheduling.selectors.queue.topology_needs import read_node_labels, topology_needs

_SIZES_SQL = """
    SELECT CASE WHEN taint = '' AND NOT gpu_pods_only THEN platform END, flavor, gpus, cpu, memory_bytes, storage_bytes,
        count(*)
    FROM pools_node WHERE backend_id = %s GROUP BY 1, flavor, gpus, cpu, memory_bytes, storage_bytes
"""
_Size = tuple[str | None, str, int, int, int, int, int]
"""Without a platform: of nodes with a taint."""


def unfitting_warnings(root: Pool, backend: Backend, specs: Sequence[WorkflowSpec]) -> list[list[str]]:
    """For each of these workflows of one pool, a warning for each group that the nodes of its backend could never hold.
    None where no node is known. One query, and two more if such a group is possible."""
    keys = root.topology_labels if backend.kind == Backend.Kind.KUBERNETES else {}
    sizes: list[_Size] = [(row[0], row[1], *map(int, row[2:])) for row in read_rows(_SIZES_SQL, [backend.pk])]
    if not sizes:
        return [[] for _ in specs]
    known: dict[int, str | None] = {}  # many workflows often share one file
    found = []
    for spec in specs:
        texts = []
        for group in spec.groups:
            if id(group) not in known:
                known[id(group)] = (
                    None if _surely_fits(group, sizes, keys, root.gpu_flavors) else _refusal(root, backend, group, keys)
                )
            if (text := known[id(group)]) is not None:
                texts.append(text)
        found.append(texts)
    return found


def _surely_fits(group: GroupSpec, sizes: Sequence[_Size], keys: Mapping[str, str], flavors: tuple[str, ...]) -> bool:
    """Whether as many tasks fit on nodes of one flavor as the group has, each as large as the largest amounts of the
    group."""
    platforms = {task.platform or "default" for task in group.tasks}
    named = {task.gpu_flavors for task in group.tasks if task.gpu}
    if len(platforms) > 1 or len(named) > 1 or any(task.nodes_excluded for task in group.tasks):
        return False
    if group.required_topology_keys & keys.keys():
        return False
    needed = [
        max(amount)
        for amount in zip(
            *((task.gpu, task.cpu, task.memory_bytes, task.storage_bytes) for task in group.tasks), strict=True
        )
    ]
    room: Counter[str] = Counter()
    for platform, flavor, *have, count in sizes:
        if platform in platforms:
            each = min((h // n for h, n in zip(have, needed, strict=True) if n), default=len(group.tasks))
            room[flavor] += each * count
    if not named:
        return room.total() >= len(group.tasks)
    may_use = named.pop() or flavors or (DEFAULT_FLAVOR,)
    return any(room[flavor] >= len(group.tasks) for flavor in may_use)


def _refusal(root: Pool, backend: Backend, group: GroupSpec, keys: Mapping[str, str]) -> str | None:
    nodes = list(Node.objects.filter(backend=backend))
    shapes = SharedObjects(nodes)
    variants, tree = proposed_variants(shapes, group, root.gpu_flavors)
    needs = topology_needs(keys, group, read_node_labels(backend)) if group.required_topology_keys & keys.keys() else ()
    flavors = (gpu_key(name) for name in root.gpu_flavors or (DEFAULT_FLAVOR,))
    queue = QueueFacts("all", quota=dict.fromkeys((*flavors, CPU, MEMORY, STORAGE), amounts.UNLIMITED))
    facts = ClusterFacts(
        queues=(queue,),
        gangs=(
            GangFacts(
                group.name, queue.name, variants.tasks, alternatives=variants.alternatives, tree=tree, topology=needs
            ),
        ),
        nodes=tuple(map(node_facts, nodes)),
        units=UNITS,
        parts=parts_among(backend.flavors),
    )
    reason = waiting_reasons(new_world(facts)).get(group.name)
    if reason is None or not reason.is_permanent:
        return None
    return f"{group.name} can never start on the nodes that cluster {backend.name} has now. {reason.message}"
