"""Nodes that fail: the search for suspect ones, their drain, and the end of the suspicion (docs/bad-day.md)."""

from __future__ import annotations

from datetime import datetime

from pools.database.transactions import change, database_time
from pools.domain.errors import Conflict, NotFound
from pools.domain.people.roles import SYSTEM, Actor
from pools.domain.quota.capacity import DRAIN_TAINT
from pools.locking import lock_configuration
from pools.models import Backend, Node
from pools.permissions import require_platform
from scheduling.domain.changes.nodes import DRAINED_NOTE, ClearNode, DrainNode, NodeChange, RestoreNode
from scheduling.domain.judgement.suspect_nodes import NODE_FAILURES, WINDOW, NodeFailure, find_suspects
from scheduling.domain.statuses import TaskStatus
from scheduling.models import NodeState, SuspectNode, Task


def find_suspect_nodes() -> int:
    """Mark the nodes that have become suspect, and end the mark of those that have been drained; returns the number of
    new marks. Failures before a person's "in order" do not count again."""
    found = {
        (backend, each.node): each
        for backend, failures in _failures(database_time()).items()
        for each in find_suspects(failures)
    }
    if not found and not SuspectNode.objects.open().exists():
        return 0
    with change(actor=SYSTEM, description="observed"):
        lock_configuration()  # an admin clears and drains nodes at the same time
        marks = {row.node_id: row for row in SuspectNode.objects.select_related("node")}
        drained = [pk for pk, row in marks.items() if row.cleared_at is None and _is_empty_and_closed(row.node)]
        SuspectNode.objects.filter(pk__in=drained).update(cleared_at=database_time())
        rows = [
            SuspectNode(node=node, failures=len(each.workflows), since=each.last, cleared_at=None)
            for node in Node.objects.filter(name__in={name for _, name in found})
            if (each := found.get((node.backend_id, node.name))) is not None
            and ((mark := marks.get(node.pk)) is None or (mark.cleared_at is not None and mark.cleared_at < each.last))
            and node.pk not in drained
            and not _is_empty_and_closed(node)
        ]
        fields = ["failures", "since", "cleared_at"]
        SuspectNode.objects.bulk_create(rows, update_conflicts=True, unique_fields=["node"], update_fields=fields)
    return len(rows)


def _failures(now: datetime) -> dict[int, list[NodeFailure]]:
    """The failed attempts of the last minutes, by backend, without those of a node before a person called it in order
    or its drain was done. Two queries, one by the index of ends."""
    cleared = SuspectNode.objects.filter(cleared_at__gte=now - 2 * WINDOW).select_related("node")
    ended = {(row.node.backend_id, row.node.name): row.cleared_at for row in cleared}
    rows = Task.objects.filter(status__in=NODE_FAILURES, end_time__gte=now - 2 * WINDOW).exclude(node_name="")
    found: dict[int, list[NodeFailure]] = {}
    columns = (
        "group__workflow__root_pool__backend_id", "node_name", "group__workflow__name",
        "group__workflow__submitted_by_id", "end_time",
    )  # fmt: skip
    for backend, node, workflow, person, at in rows.values_list(*columns):
        if (end := ended.get((backend, node))) is None or at > end:
            found.setdefault(backend, []).append(NodeFailure(node, workflow, str(person), at))
    return found


def _is_empty_and_closed(node: Node) -> bool:
    """Whether a drain of the node is done: it takes no new work, and none runs on it."""
    is_closed = NodeState.objects.filter(node=node, ready=False).exists()
    work = Task.objects.filter(
        node_name=node.name, status=TaskStatus.RUNNING, group__workflow__root_pool__backend=node.backend_id
    )
    return is_closed and not work.exists()


def drain_node(command: DrainNode, *, actor: Actor, description: str = "") -> Node:
    """Start no new work on a simulated node. Raises Conflict for a cluster, whose own tools drain its nodes."""
    require_platform(actor)
    with change(actor=actor, description=description):
        node = _lock_simulated(command, "kubectl drain")
        if node.taint != DRAIN_TAINT:
            node.taint = DRAIN_TAINT
            node.save(update_fields=["taint"])
        NodeState.objects.update_or_create(node=node, defaults={"ready": False, "notes": [DRAINED_NOTE]})
    return node


def restore_node(command: RestoreNode, *, actor: Actor, description: str = "") -> Node:
    """Let a drained simulated node take work again. Raises Conflict for a cluster."""
    require_platform(actor)
    with change(actor=actor, description=description):
        node = _lock_simulated(command, "kubectl uncordon")
        if node.taint == DRAIN_TAINT:
            node.taint = ""
            node.save(update_fields=["taint"])
            NodeState.objects.filter(node=node).delete()
    return node


def clear_node(command: ClearNode, *, actor: Actor, description: str = "") -> Node:
    """End the suspicion; the failures up to now do not count again."""
    require_platform(actor)
    with change(actor=actor, description=description):
        node = _lock_node(command)
        SuspectNode.objects.open().filter(node=node).update(cleared_at=database_time())
    return node


def _lock_simulated(command: NodeChange, tool: str) -> Node:
    node = _lock_node(command)
    if node.backend.kind != Backend.Kind.SIMULATED:
        message = f"Cluster {command.backend} runs on Kubernetes; there an admin does it with: {tool} {node.name}"
        raise Conflict(message)
    return node


def _lock_node(command: NodeChange) -> Node:
    """The node, under the lock of the configuration, which its removal takes, too."""
    lock_configuration()
    node = Node.objects.select_related("backend").filter(backend__name=command.backend, name=command.node).first()
    if node is None:
        raise NotFound(f"There is no node {command.node} on cluster {command.backend}.")
    return node
