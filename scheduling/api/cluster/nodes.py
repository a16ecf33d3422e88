"""The nodes of a backend with the work on them, and the number of tasks that still fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, NotRequired, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import ZonedText, describe_operation
from pools.api.views import View
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import DRAIN_TAINT
from pools.models import Node
from scheduling.domain.changes.nodes import ClearNode, DrainNode, NodeChange, RestoreNode
from scheduling.domain.lists import NodeQuery
from scheduling.models import SuspectNode
from scheduling.selectors.cluster.node_map import FlavorNodes, MappedNode, NodeMap, NodeWork, TaskFit, read_node_map
from scheduling.services.node_care import clear_node, drain_node, restore_node


class SharedGpusAnswer(TypedDict):
    """The GPUs of a node that shares them: those that it has, null where its labels do not say, and the parts and GPUs
    that it advertises. The `gpus` of the node are those that count."""

    physical: int | None
    advertised: int


class NodeAnswer(TypedDict):
    """A node with the work on it; the numbers are GPUs."""

    name: str
    platform: str
    flavor: NotRequired[str]
    ready: bool
    gpus: int
    used: int
    unseen: int
    ending: int
    other: int
    free: int
    closed: int
    shared: Annotated[SharedGpusAnswer | None, "Null for a node that shares no GPUs."]
    suspect_since: ZonedText | None
    notes: list[str]
    work: Sequence[NodeWork]


class FlavorNodesAnswer(TypedDict):
    """The nodes of one flavor together, in GPUs."""

    flavor: str
    shared: NotRequired[Annotated[bool, "Where the GPUs are parts of shared ones."]]
    gpus: int
    used: int
    free: int
    fits: Sequence[TaskFit]


class NodeMapAnswer(TypedDict):
    """The nodes of a backend with their sums: numbers of nodes (`total`, `all_nodes`), else whole GPUs; by flavor where
    the backend names some. Parts of shared GPUs are in `flavors` alone."""

    backend: str
    offline: bool
    total: int
    all_nodes: int
    gpus: int
    used: int
    ending: int
    other: int
    free: int
    closed: int
    fits: Sequence[TaskFit]
    flavors: NotRequired[list[FlavorNodesAnswer]]
    nodes: list[NodeAnswer]


class NodeMapDetail(View):
    """Who runs where: `used` are GPUs of running tasks (`unseen` of them of workflows that the caller may not see),
    `ending` those of pods whose task has ended or does not run yet, `other` those of foreign pods, `closed` unused ones
    of nodes that take no new work. A node is suspect while `suspect_since` is set. `notes` says what keeps work away
    from a node, and what its numbers do not say."""

    @describe_operation(
        "Show the nodes of a backend with the workflows on them.",
        query_parameters=parameters_of(NodeQuery),
        answer=NodeMapAnswer,
    )
    def get(self, request: Request, backend: str) -> Response:
        return Response(_node_map_body(read_node_map(self.actor, backend, **asdict(read_query(NodeQuery, request)))))


def _node_map_body(found: NodeMap) -> NodeMapAnswer:
    body: NodeMapAnswer = {
        "backend": found.backend,
        "offline": found.offline,
        "total": found.total,
        "all_nodes": found.all_nodes,
        "gpus": found.gpus,
        "used": found.used,
        "ending": found.ending,
        "other": found.other,
        "free": found.free,
        "closed": found.closed,
        "fits": found.fits,
        "nodes": [_node_body(each) for each in found.nodes],
    }
    if found.flavors:
        body["flavors"] = [_flavor_body(each) for each in found.flavors]
    return body


def _flavor_body(room: FlavorNodes) -> FlavorNodesAnswer:
    body: FlavorNodesAnswer = {
        "flavor": room.flavor, "gpus": room.gpus, "used": room.used, "free": room.free, "fits": room.fits
    }  # fmt: skip
    if room.is_shared:
        body["shared"] = True
    return body


def _node_body(node: MappedNode) -> NodeAnswer:
    use = node.usage
    body: NodeAnswer = {
        "name": use.name,
        "platform": use.platform,
        "ready": use.ready,
        "gpus": use.gpus,
        "used": use.used_gpus,
        "unseen": node.unseen_gpus,
        "ending": use.ending_gpus,
        "other": use.other_gpus,
        "free": use.free_gpus,
        "closed": node.closed_gpus,
        "shared": None
        if use.advertised_gpus is None
        else {"physical": use.physical_gpus, "advertised": use.advertised_gpus},
        "suspect_since": zoned_text(use.suspect_since),
        "notes": list(use.notes),
        "work": node.work,
    }
    if use.flavor:
        body["flavor"] = use.flavor
    return body


class NodeCareAnswer(TypedDict):
    """The state of a node that people set: `drained`, and whether it is `suspect`."""

    backend: str
    node: str
    drained: bool
    suspect: bool


def _care_body(node: Node) -> NodeCareAnswer:
    return {
        "backend": node.backend.name,
        "node": node.name,
        "drained": node.taint == DRAIN_TAINT,
        "suspect": SuspectNode.objects.open().filter(node=node).exists(),
    }


def _care_state(command: NodeChange, actor: Actor) -> NodeCareAnswer | None:
    rows = Node.objects.select_related("backend").filter(backend__name=command.backend, name=command.node)
    return next((_care_body(node) for node in rows), None)


_CARE: ChangeAnswer[Any, Node] = ChangeAnswer(_care_body, effect_on(_care_state))


class NodeDrain(View):
    """The drain of a node of a simulated backend. The tools of a cluster drain its nodes."""

    @describe_change(DrainNode, answer=NodeCareAnswer)
    def post(self, request: Request, backend: str, node: str) -> Response:
        return answer_change(self, DrainNode, drain_node, _CARE, {"backend": backend, "node": node})


class NodeRestore(View):
    """The end of a drain."""

    @describe_change(RestoreNode, answer=NodeCareAnswer)
    def post(self, request: Request, backend: str, node: str) -> Response:
        return answer_change(self, RestoreNode, restore_node, _CARE, {"backend": backend, "node": node})


class NodeClearance(View):
    """The end of a suspicion by a person."""

    @describe_change(ClearNode, answer=NodeCareAnswer)
    def post(self, request: Request, backend: str, node: str) -> Response:
        return answer_change(self, ClearNode, clear_node, _CARE, {"backend": backend, "node": node})
