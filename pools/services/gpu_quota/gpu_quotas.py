"""GPU quotas: put, delete, and the history of the use of namespaces.

Lowering a cap below what is used is never refused: what runs stays, new workers are refused. Use is counted with or
without a quota, so a quota that is made again counts the workers that are there (design, D14).
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from pools.database.statements import execute_sql
from pools.database.transactions import change
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.gpu_quota.spec import gpu_quota_spec_body, namespace_violations, parse_gpu_quota_spec
from pools.domain.people.roles import Actor
from pools.locking import lock_namespace
from pools.models import GpuQuota, GpuUsageSample
from pools.permissions import require_platform
from pools.selectors.gpu_namespace import GpuNamespace, read_namespaces, spec_from_row
from pools.services.changes.seen_state import require_as_seen
from pools.services.gpu_quota.gpu_quota_conditions import update_conditions

SAMPLE_RETENTION = timedelta(days=30)
"""The time after which samples of use are deleted."""


def put_gpu_quota(
    command: PutGpuQuota, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> GpuNamespace:
    """Create the quota of a namespace, or replace its spec as a whole. `osmo-admin` only.

    Raises BadInput (every fault at once), Conflict (an object in a cluster owns this quota), Stale, Forbidden.
    """
    require_platform(actor)
    namespace = command.namespace
    parsed, faults = parse_gpu_quota_spec(command.spec)
    faults = [*namespace_violations(namespace), *faults]
    if faults:
        raise BadInput.of(faults)
    with change(actor=actor, description=description):
        facts = lock_namespace(namespace)
        row = facts.quota
        _check_version(namespace, row, expected_version)
        require_as_seen()
        if row is not None and row.source != "api":
            raise _other_owner_conflict(row)
        _store(facts, gpu_quota_spec_body(parsed))
    return read_namespaces([namespace])[namespace]


def delete_gpu_quota(
    command: DeleteGpuQuota, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> None:
    """Delete a quota; its allocations stay and are still counted. Raises NotFound, Conflict, Stale, Forbidden."""
    require_platform(actor)
    namespace = command.namespace
    with change(actor=actor, description=description):
        row = lock_namespace(namespace).quota
        if row is None:
            raise NotFound(f"There is no GPU quota in namespace {namespace[:100]}.")
        _check_version(namespace, row, expected_version)
        if row.source != "api":
            raise _other_owner_conflict(row)
        row.delete()


def apply_cluster_quota(*, actor: Actor, namespace: str, source: str, spec: object) -> bool:
    """Make a namespace's quota equal to the object `source` (`kubernetes:BACKEND/NAME`) of a cluster; returns whether
    the quota changed.

    If the spec of the object is not valid, the earlier spec stays in force and `faults` give the reasons. Raises
    Conflict if the API or another object owns the quota of that namespace.
    """
    parsed, found = parse_gpu_quota_spec(spec)
    faults = [fault.message for fault in found]
    with change(actor=actor, description=f"read from {source}"):
        facts = lock_namespace(namespace)
        row = facts.quota
        if row is not None and row.source != source:
            raise _other_owner_conflict(row)
        if is_cluster_quota_applied(row, source, spec):
            return False
        body = row.spec if faults and row is not None else gpu_quota_spec_body(parsed)
        _store(facts, body, source=source, faults=faults)
    return True


def is_cluster_quota_applied(row: GpuQuota | None, source: str, spec: object) -> bool:
    """Whether :func:`apply_cluster_quota` has nothing to do: the API or another object owns the quota, or the row
    equals the object, or the object is not valid and there was no quota before it."""
    parsed, found = parse_gpu_quota_spec(spec)
    if row is None:
        return bool(found)
    faults = [fault.message for fault in found]
    is_same = row.faults == faults and (bool(faults) or row.spec == gpu_quota_spec_body(parsed))
    return is_same or row.source != source


def drop_cluster_quota(*, actor: Actor, namespace: str, source: str) -> bool:
    """Delete the quota of an object that no longer exists; returns whether there was one."""
    with change(actor=actor, description=f"{source} is gone"):
        row = lock_namespace(namespace).quota
        if row is None or row.source != source:
            return False
        row.delete()
    return True


def sample_usage() -> int:
    """Store a sample of each namespace whose committed amounts differ from its last sample, and delete old samples, in
    one statement each. Returns the number of stored samples."""
    sample_count: int = execute_sql(
        """
        INSERT INTO pools_gpuusagesample
            (namespace, requests_tflops, requests_vram, limits_tflops, limits_vram, workers)
        SELECT usage.namespace, usage.requests_tflops, usage.requests_vram, usage.limits_tflops, usage.limits_vram,
            usage.workers
        FROM pools_gpuusage usage
        LEFT JOIN LATERAL (
            SELECT * FROM pools_gpuusagesample WHERE namespace = usage.namespace ORDER BY at DESC LIMIT 1
        ) last ON TRUE
        WHERE (usage.requests_tflops, usage.requests_vram, usage.limits_tflops, usage.limits_vram, usage.workers)
            IS DISTINCT FROM (last.requests_tflops, last.requests_vram, last.limits_tflops, last.limits_vram,
            last.workers)
        """
    ).rowcount
    GpuUsageSample.objects.filter(at__lt=Now() - SAMPLE_RETENTION).delete()
    return sample_count


def _store(
    facts: GpuNamespace, spec: dict[str, object], *, source: str = "api", faults: list[str] | None = None
) -> None:
    now, row = timezone.now(), facts.quota
    if row is None:
        row = GpuQuota.objects.create(namespace=facts.name, spec=spec, source=source, faults=faults or [])
    elif (row.spec, row.faults) != (spec, faults or []):
        row.spec, row.faults, row.updated_at = spec, faults or [], now
        row.version += 1
        row.save(update_fields=["spec", "faults", "updated_at", "version"])
    update_conditions(row, spec_from_row(row), facts.committed, now)


def _check_version(namespace: str, row: GpuQuota | None, expected: int | None) -> None:
    check_version(f"The quota of {namespace}", expected, None if row is None else row.version)


def _other_owner_conflict(row: GpuQuota) -> Conflict:
    where = "by the API" if row.source == "api" else f"by the object {row.source.partition(':')[2]} in its cluster"
    message = f"The quota of namespace {row.namespace} is managed {where}; change or delete it there."
    return Conflict(message, [Violation("namespace", Fault.KEPT_ELSEWHERE, message)])
