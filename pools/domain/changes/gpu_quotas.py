"""Changes of GPU quotas: put and delete (design, D14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import JSON, in_address, value


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuQuotaChange(ChangeCommand):
    """A change of the GPU quota of one namespace."""

    permission: ClassVar = Permission.PLATFORM_WRITE
    owned_kind: ClassVar = OwnedKind.GPU_QUOTA

    namespace: str = in_address("NAMESPACE", "Namespace", "Namespace of the quota.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PutGpuQuota(GpuQuotaChange):
    """Create the GPU quota of a namespace, or replace it as a whole."""

    service: ClassVar = "put_gpu_quota"
    audit: ClassVar = (
        AuditAction.GPU_QUOTA_CREATED,
        AuditAction.GPU_QUOTA_UPDATED,
        AuditAction.GPU_QUOTA_ALERT,
        AuditAction.GPU_QUOTA_CALM,
    )

    spec: Mapping[str, Any] = value(
        JSON,
        "Caps",
        "The caps, as total and single; a cap that is left out is not checked.",
        missing="is missing: give the caps as total and single.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGpuQuota(GpuQuotaChange):
    """Remove the GPU quota of a namespace; its workers stay."""

    service: ClassVar = "delete_gpu_quota"
    audit: ClassVar = (AuditAction.GPU_QUOTA_DELETED,)
