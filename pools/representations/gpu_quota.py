"""GPU quota as the API shows it (design, A7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict

from django.utils import timezone

from pools.domain.errors import ViolationAnswer
from pools.domain.gpu_quota.checks import headroom_for
from pools.domain.gpu_quota.spec import gpu_quota_spec_body, spec_schema
from pools.domain.gpu_quota.status import ConditionBody, usage_gauges
from pools.domain.gpu_quota.workers import GpuWorker, TotalsBody
from pools.models import GpuQuota, GpuUsage, GpuUsageSample
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces, totals_from_counters


class StatusAnswer(TypedDict):
    """The status in the camelCase of the GPUResourceQuota object."""

    used: TotalsBody
    availablePercent: dict[str, str]
    conditions: list[ConditionBody]
    lastUpdateTime: datetime | None


class GpuQuotaAnswer(TypedDict):
    """The GPU quota of a namespace with its status."""

    namespace: str
    spec: Annotated[dict[str, Any], spec_schema]
    status: StatusAnswer
    assumed: Annotated[TotalsBody, "The reserved amounts."]
    source: str
    alerting: list[str]
    alert_since: datetime | None
    alerts: int
    version: int


class HeadroomAnswer(TypedDict):
    """The number of further workers that fit (null: no cap counts them), and the caps that stop the next one."""

    namespace: str
    fits: int | None
    stopped_by: list[ViolationAnswer]


class SampleAnswer(TotalsBody):
    """The use of a namespace at a time."""

    time: datetime


class UsageHistory(TypedDict):
    """The use of a namespace over time, oldest first; the last entry is the present use."""

    namespace: str
    samples: list[SampleAnswer]


def gpu_quota_body(facts: GpuNamespace) -> GpuQuotaAnswer:
    """One quota with its status. `assumed` has the reserved amounts."""
    assert facts.quota is not None
    return {
        "namespace": facts.name,
        "spec": gpu_quota_spec_body(facts.spec),
        "status": gpu_status_body(facts),
        "assumed": facts.assumed.as_dict(),
        "source": facts.quota.source,
        "alerting": facts.quota.alerting,
        "alert_since": facts.quota.alert_since,
        "alerts": facts.quota.alerts,
        "version": facts.quota.version,
    }


def gpu_status_body(facts: GpuNamespace) -> StatusAnswer:
    """The status of one quota."""
    now = timezone.now()
    return {
        "used": facts.committed.as_dict(),
        "availablePercent": {gauge.key: gauge.available_text for gauge in usage_gauges(facts.spec, facts.committed)},
        "conditions": [condition.as_dict() for condition in facts.conditions(now)],
        "lastUpdateTime": last_updated_at(facts),
    }


def last_updated_at(facts: GpuNamespace) -> datetime | None:
    """The time of the last change of use or caps."""
    times = [facts.changed_at, facts.quota.updated_at if facts.quota else None]
    return max((time for time in times if time is not None), default=None)


def current_gpu_quota_body(namespace: str) -> GpuQuotaAnswer | None:
    """One quota as it is now, None if there is none."""
    facts = read_namespaces([namespace])[namespace]
    return None if facts.quota is None else gpu_quota_body(facts)


def gpu_quota_bodies(namespaces: Iterable[str] | None) -> list[GpuQuotaAnswer]:
    """The quotas of these namespaces (None: of all), by name; always four queries."""
    rows = GpuQuota.objects.order_by("namespace")
    if namespaces is not None:
        rows = rows.filter(namespace__in=namespaces)
    found = read_namespaces(rows.values_list("namespace", flat=True))
    return [gpu_quota_body(facts) for facts in found.values() if facts.quota is not None]


def headroom_body(facts: GpuNamespace, worker: GpuWorker) -> HeadroomAnswer:
    """The number of further workers of this size that fit."""
    fits, stopped_by = headroom_for(facts.spec, facts.committed_and_assumed, facts.spec.with_defaults(worker))
    return {
        "namespace": facts.name,
        "fits": fits,
        "stopped_by": [broken.as_violation(facts.name).as_dict() for broken in stopped_by],
    }


def usage_history_body(namespace: str, samples: Sequence[GpuUsageSample], usage: GpuUsage | None) -> UsageHistory:
    """The use of a namespace over time."""
    families = usage.families if usage else "DDDD"
    points: list[SampleAnswer] = [
        {"time": sample.at, **totals_from_counters(sample, families=families).as_dict()} for sample in samples
    ]
    if usage is not None:
        points.append({"time": timezone.now(), **totals_from_counters(usage).as_dict()})
    return {"namespace": namespace, "samples": points}
