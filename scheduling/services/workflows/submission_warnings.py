"""Warnings of a submission: it is accepted, but parts of the file have no effect, or the work may wait long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pools.domain.names import SHARED_QUEUE, k8s_queue_name, queue_name, split_name, with_pool_names
from pools.domain.structured_input import Faults, join_words, quote
from pools.models import Backend, Pool
from scheduling.domain.cluster.pods.tokens import INPUT_DIRECTORY, OUTPUT_DIRECTORY
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.lost import CHECKPOINT_LABEL
from scheduling.domain.workflow_spec import SIMULATED_RUNTIME_LABEL, WorkflowSpec
from scheduling.selectors.cluster.node_fit import unfitting_warnings
from scheduling.selectors.cluster.queue_sync_state import read_closed_queues

MAX_NAMED_TASKS = 5  # in one message
OUR_LABELS = "osmo/"
READ_LABELS = (SIMULATED_RUNTIME_LABEL, CHECKPOINT_LABEL)


def read_warnings(
    leaf: Pool,
    specs: Sequence[WorkflowSpec],
    labels: Sequence[Mapping[str, str]],
    requested: Sequence[Priority | None],
) -> list[list[str]]:
    """For each of these workflows on one leaf its warnings, in the order of answers. `labels` are those of the file and
    of the submission together, `requested` the priorities that the submissions name."""
    root = leaf.root
    of_queue = _queue_warnings(leaf)
    of_nodes = unfitting_warnings(root, root.backend, specs) if root.backend is not None else [[] for _ in specs]
    return [
        [
            *_priority_warnings(priority, spec),
            *_data_warnings(root, spec),
            *_topology_warnings(root, spec),
            *_excluded_warnings(root, spec),
            *_label_warnings(root, its_labels),
            *of_queue,
            *unfitting,
        ]
        for spec, its_labels, priority, unfitting in zip(specs, labels, requested, of_nodes, strict=True)
    ]


def _priority_warnings(requested: Priority | None, spec: WorkflowSpec) -> list[str]:
    """A warning if a parameter of the submission overrules the priority in the file."""
    if requested is None or spec.priority in {None, requested}:
        return []
    return [f"The file asks for priority {spec.priority}, the submission for {requested}: it is {requested}."]


def _data_warnings(root: Pool, spec: WorkflowSpec) -> list[str]:
    """A warning for tasks with inputs and outputs on a cluster, which moves no data. On a simulated backend no task
    reads or writes anything."""
    if root.backend is None or root.backend.kind != Backend.Kind.KUBERNETES:
        return []
    tasks = [task.name for group in spec.groups for task in group.tasks if task.inputs or task.outputs]
    if not tasks:
        return []
    message = (
        f"Data is not moved on cluster {root.backend.name}: the inputs and outputs of {_few(tasks)} are neither "
        f"fetched nor stored. {INPUT_DIRECTORY} and "
        f"{OUTPUT_DIRECTORY} are empty directories of the pod, so read and write storage from the command. "
        "A group still waits for the tasks that its inputs name."
    )
    return [message]


def _queue_warnings(leaf: Pool) -> list[str]:
    """A warning if the queue of this leaf in its cluster is known to be unusable."""
    root = leaf.root
    if root.backend is None or root.backend.kind != Backend.Kind.KUBERNETES:
        return []
    namespace = root.backend.namespace
    short_name = split_name(leaf.name).subpool or SHARED_QUEUE
    queue = k8s_queue_name(queue_name(namespace, root.name, short_name))
    if (message := read_closed_queues(root.backend.pk).get(queue)) is None:
        return []
    return [f"The work waits here until its queue can be used: {with_pool_names(message, namespace)}"]


def _topology_warnings(root: Pool, spec: WorkflowSpec) -> list[str]:
    """A warning for topology requirements on a simulated backend, whose nodes have no labels."""
    if root.backend is None or root.backend.kind == Backend.Kind.KUBERNETES:
        return []
    tasks = [task.name for group in spec.groups for task in group.tasks if task.topology]
    if not tasks:
        return []
    message = (
        f"`topology` has no effect on the simulated cluster {root.backend.name}: {_few(tasks)} may run on any nodes. "
        "A Kubernetes cluster places them by the node labels of the keys."
    )
    return [message]


def _excluded_warnings(root: Pool, spec: WorkflowSpec) -> list[str]:
    """A warning for names in `nodesExcluded` that no node of the cluster has, as a misspelt one. Nothing is known about
    a cluster without nodes."""
    tasks = [task for group in spec.groups for task in group.tasks if task.nodes_excluded]
    if not tasks or root.backend is None:
        return []
    nodes = set(root.backend.nodes.values_list("name", flat=True))
    faulty = [task.name for task in tasks if not nodes.issuperset(task.nodes_excluded)]
    if not nodes or not faulty:
        return []
    unknown = {name for task in tasks for name in task.nodes_excluded} - nodes
    near = "".join(dict.fromkeys(Faults().suggestion(name, nodes) for name in sorted(unknown)[:MAX_NAMED_TASKS]))
    names = "1 name" if len(unknown) == 1 else f"{len(unknown)} names"
    where = f"of no node that cluster {root.backend.name} has now"
    return [f"nodesExcluded of {_few(faulty)} has {names} {where}: nothing is excluded by that.{near}"]


def _label_warnings(root: Pool, labels: Mapping[str, str]) -> Iterator[str]:
    """A warning for each label of ours that nothing reads, as a misspelt one. All other labels are the user's own."""
    for key in labels:
        if key.startswith(OUR_LABELS) and key not in READ_LABELS:
            near = Faults().suggestion(key, READ_LABELS)
            yield f"The label {quote(key)} is read by nothing. Known are {join_words(READ_LABELS)}.{near}"
    if SIMULATED_RUNTIME_LABEL in labels and root.backend is not None and root.backend.kind == Backend.Kind.KUBERNETES:
        yield (
            f"The label {SIMULATED_RUNTIME_LABEL} has no effect on cluster {root.backend.name}: there the command of a "
            "task says how long it runs."
        )


def _few(names: Sequence[str]) -> str:
    """The first of these names, and how many follow."""
    more = f" and {len(names) - MAX_NAMED_TASKS} more" if len(names) > MAX_NAMED_TASKS else ""
    return f"{', '.join(names[:MAX_NAMED_TASKS])}{more}"
