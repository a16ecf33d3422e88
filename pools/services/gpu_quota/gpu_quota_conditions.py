"""Conditions and alert of a GPU quota after a change of its use or its caps.

Every change of use or caps calls this under the namespace's lock; it writes only when a status changes.
"""

from __future__ import annotations

from datetime import datetime

from pools.domain.gpu_quota.checks import GpuQuotaSpec
from pools.domain.gpu_quota.status import alerts_after_change, compute_conditions
from pools.domain.gpu_quota.workers import WorkerTotals
from pools.models import GpuQuota
from pools.selectors.gpu_namespace import conditions_to_store, stored_condition_times


def update_conditions(quota: GpuQuota | None, spec: GpuQuotaSpec, used: WorkerTotals, now: datetime) -> None:
    """Compute the conditions from the committed amounts, and raise or end the alert.

    The audit entry of a raised alert is the event that event streams send.
    """
    if quota is None:
        return
    before = quota.conditions
    quota.conditions = conditions_to_store(
        compute_conditions(spec, used, stored_condition_times(quota), now, faults=tuple(quota.faults))
    )
    known = set(quota.alerting)
    alerting = alerts_after_change(spec, used, known)
    if set(alerting) == known and quota.conditions == before:
        return
    quota.alerts += not known.issuperset(alerting)
    quota.alert_since = (quota.alert_since or now) if alerting else None
    quota.alerting = alerting
    GpuQuota.objects.filter(pk=quota.pk).update(
        conditions=quota.conditions, alerting=alerting, alert_since=quota.alert_since, alerts=quota.alerts
    )
