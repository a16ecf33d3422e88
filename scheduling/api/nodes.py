"""The nodes of a backend with the work on them, and the number of tasks that still fit."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import collect_faults, query_integer, query_page
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from scheduling.selectors.node_map import MappedNode, NodeWork, read_node_map

NODE_WORK = object_with(
    {
        "workflow": TEXT,
        "pool": TEXT,
        "user": TEXT,
        "priority": TEXT,
        "gpus": INTEGER,
        "tasks": INTEGER,
        "since": nullable(DATETIME),
    }
)
NODE = object_with(
    {
        "name": TEXT,
        "platform": TEXT,
        "ready": BOOLEAN,
        "gpus": INTEGER,
        "used": INTEGER,
        "unseen": INTEGER,
        "ending": INTEGER,
        "other": INTEGER,
        "free": INTEGER,
        "closed": INTEGER,
        "notes": array_of(TEXT),
        "work": array_of(NODE_WORK),
    }
)
SUMS = dict.fromkeys(("total", "all_nodes", "gpus", "used", "ending", "other", "free", "closed"), INTEGER)


class NodeMapDetail(View):
    """Who runs where: `used` are GPUs of running tasks (`unseen` of them of workflows that the caller may not see),
    `ending` those of pods whose task has ended or does not run yet, `other` those of foreign pods, `closed` unused ones
    of nodes that take no new work. `notes` says what keeps work away from a node, and what its numbers do not say."""

    @describe_operation(
        "Show the nodes of a backend with the workflows on them.",
        query_parameters=[
            QueryParameter("name", TEXT, "Only nodes whose names contain this text."),
            QueryParameter("free", INTEGER, "Only nodes with at least so many free GPUs."),
            QueryParameter("limit", INTEGER, "The number of nodes."),
            QueryParameter("offset", INTEGER, "The nodes to skip."),
        ],
        answer=object_with(
            {
                "backend": TEXT,
                "offline": BOOLEAN,
                **SUMS,
                "fits": array_of(object_with({"gpus": INTEGER, "tasks": INTEGER})),
                "nodes": array_of(NODE),
            }
        ),
    )
    def get(self, request: Request, backend: str) -> Response:
        (limit, offset), free = collect_faults(lambda: query_page(request), lambda: query_integer(request, "free", 0))
        name = request.query_params.get("name", "")
        found = read_node_map(self.actor, backend, name=name, free=free, limit=limit, offset=offset)
        return Response(
            {
                "backend": found.backend,
                "offline": found.offline,
                **{key: getattr(found, key) for key in SUMS},
                "fits": [{"gpus": each.gpus, "tasks": each.tasks} for each in found.fits],
                "nodes": [_node_body(each) for each in found.nodes],
            }
        )


def _node_body(node: MappedNode) -> dict[str, Any]:
    use = node.usage
    return {
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
        "notes": list(use.notes),
        "work": [_work_body(each) for each in node.work],
    }


def _work_body(work: NodeWork) -> dict[str, Any]:
    return {
        "workflow": work.workflow,
        "pool": work.pool,
        "user": work.user,
        "priority": work.priority,
        "gpus": work.gpus,
        "tasks": work.tasks,
        "since": None if work.since is None else utc_text(work.since),
    }
