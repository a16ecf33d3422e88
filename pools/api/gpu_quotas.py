"""GPU quotas by namespace: list, read, put, delete, room and history (api.md, "GPU quota by namespace")."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import boolean, etag, expected_version, only, page, unwrapped
from pools.api.schema import (
    BOOLEAN,
    DRY_RUN,
    LIMIT,
    NULL,
    OBJECT,
    OFFSET,
    TEXT,
    TIME,
    WHOLE,
    Query,
    array,
    documented,
    fields,
    nullable,
)
from pools.api.times import moment
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.domain.gpu_quota.workers import parse_worker
from pools.models import GpuUsage, GpuUsageSample
from pools.permissions import namespaces_for, require_house, require_namespace, unseen
from pools.representations.gpu_quota import history_body, quota_bodies, quota_body, room_body, shown
from pools.selectors.gpu_namespace import look_at
from pools.services.dry_run import effect_of
from pools.services.gpu_quotas import delete_quota, put_quota

QUANTITY = {"anyOf": [TEXT, {"type": "number", "minimum": 0}]}
AMOUNTS = fields({"tflops": QUANTITY, "vram": QUANTITY}, required=[])
SPEC = fields(
    {
        "total": fields(
            {"requests": AMOUNTS, "limits": AMOUNTS, "maxWorkers": WHOLE, "alertThresholdPercent": WHOLE}, required=[]
        ),
        "single": fields(
            {
                "maxRequests": AMOUNTS,
                "maxLimits": AMOUNTS,
                "maxGPUCount": WHOLE,
                "defaultRequests": AMOUNTS,
                "defaultLimits": AMOUNTS,
            },
            required=[],
        ),
    },
    required=[],
)
USED = fields({"requests": AMOUNTS, "limits": AMOUNTS, "workers": WHOLE})
STATUS = fields(
    {
        "used": USED,
        "availablePercent": {"type": "object", "additionalProperties": TEXT},
        "conditions": array(
            fields({"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT, "lastTransitionTime": TIME})
        ),
        "lastUpdateTime": nullable(TIME),
    }
)
QUOTA = fields({"namespace": TEXT, "spec": SPEC, "status": STATUS, "version": WHOLE}, more=True)
WORKER = (
    Query("request_tflops", TEXT, "TFLOPS asked for, per GPU."),
    Query("request_vram", TEXT, "Memory asked for, per GPU."),
    Query("limit_tflops", TEXT, "The most TFLOPS, per GPU."),
    Query("limit_vram", TEXT, "The most memory, per GPU."),
    Query("count", WHOLE, "GPUs of one worker, 1 if not given."),
)
SAMPLE = fields({"time": TIME, "requests": AMOUNTS, "limits": AMOUNTS, "workers": WHOLE})
SINCE = Query("since", TIME, "Begin here; a day ago if not given.")
USUAL_HISTORY = timedelta(days=1)


class GpuQuotaList(View):
    """All quotas the caller may see."""

    @documented("List GPU quotas with their status.", answer=fields({"quotas": array(QUOTA)}))
    def get(self, request: Request) -> Response:
        return Response({"quotas": quota_bodies(namespaces_for(self.actor))})


class GpuQuotaDetail(View):
    """The quota of one namespace."""

    @documented("Show the GPU quota of a namespace with its status.", answer=QUOTA)
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        body = shown(namespace)
        if body is None:
            raise unseen(namespace)
        return Response(body, headers=etag(body["version"]))

    @documented(
        "Make the GPU quota of a namespace, or replace it as a whole.",
        query=[DRY_RUN],
        body=fields({"spec": SPEC}, required=[], more=True),
        answer=QUOTA,
    )
    def put(self, request: Request, namespace: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body, "spec", "namespace", "status", "assumed", "source", "alerting", "alert_since", "alerts", "version")
        if body.get("namespace", namespace) != namespace:
            said = (
                f"namespace is another one than the {namespace[:100]} of the address; leave it out, or give that one."
            )
            raise BadInput.of([Violation("namespace", "bad_value", said)])
        if "spec" not in body:
            raise BadInput.of([Violation("spec", "missing", "spec is missing: give the caps as total and single.")])
        version = expected_version(request)

        def deed() -> Any:
            return put_quota(
                actor=self.actor,
                namespace=namespace,
                spec=body["spec"],
                description=description,
                expected_version=version,
            )

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: shown(namespace)))
        answer = quota_body(deed())
        return Response(answer, headers=etag(answer["version"]))

    @documented("Remove the GPU quota of a namespace; its workers stay.", query=[DRY_RUN], answer=NULL)
    def delete(self, request: Request, namespace: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body)
        version = expected_version(request)

        def deed() -> None:
            delete_quota(actor=self.actor, namespace=namespace, description=description, expected_version=version)

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: shown(namespace)))
        deed()
        return Response(None)


class GpuRoom(View):
    """How many more workers of one size fit."""

    @documented(
        "Say how many more workers of a size fit in a namespace (null: no cap counts them), and what stops the next.",
        query=WORKER,
        answer=fields({"namespace": TEXT, "fits": nullable(WHOLE), "stopped_by": array(OBJECT)}),
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        given = {query.name: request.query_params.get(query.name) or None for query in WORKER}
        worker, faults = parse_worker(given)
        if faults:
            raise BadInput.of(faults)
        return Response(room_body(look_at([namespace])[namespace], worker))


class GpuHistory(View):
    """What a namespace used."""

    @documented(
        "Show what the workers of a namespace used over time, oldest first; the last sample is now.",
        query=[SINCE, LIMIT, OFFSET],
        answer=fields({"namespace": TEXT, "samples": array(SAMPLE), "more_entries": BOOLEAN}),
    )
    def get(self, request: Request, namespace: str) -> Response:
        require_namespace(self.actor, namespace)
        limit, offset = page(request, limit=1000)
        since = moment(request, "since") or timezone.now() - USUAL_HISTORY
        rows = GpuUsageSample.objects.filter(namespace=namespace, at__gte=since).order_by("at")
        found = list(rows[offset : offset + limit + 1])
        more = len(found) > limit
        usage = None if more else GpuUsage.objects.filter(namespace=namespace).first()
        return Response(history_body(namespace, found[:limit], usage) | {"more_entries": more})
