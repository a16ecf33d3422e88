"""The ledger's tables, one subject in each file."""

from pools.models.audit import AuditEntry
from pools.models.backend import Backend, LedgerGeneration, Node
from pools.models.cluster import KubernetesSettings
from pools.models.cohort import Cohort, QuotaStamp
from pools.models.gpu_quota import GpuAllocation, GpuQuota, GpuUsage, GpuUsageSample
from pools.models.history import ConfigRevision
from pools.models.idempotency import IdempotencyRecord
from pools.models.membership import AccessToken, RoleAssignment, User
from pools.models.pool import Pool
from pools.models.usage import LeafUsage, Reservation

__all__ = [
    "AccessToken",
    "AuditEntry",
    "Backend",
    "Cohort",
    "ConfigRevision",
    "GpuAllocation",
    "GpuQuota",
    "GpuUsage",
    "GpuUsageSample",
    "IdempotencyRecord",
    "KubernetesSettings",
    "LeafUsage",
    "LedgerGeneration",
    "Node",
    "Pool",
    "QuotaStamp",
    "Reservation",
    "RoleAssignment",
    "User",
]
