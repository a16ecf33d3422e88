"""Changes of the workers of a namespace, each named by an id that its caller chose (design, A7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.gpu_quota.spec import AMOUNTS_SCHEMA
from pools.domain.gpu_quota.workers import (
    MAX_GPUS,
    NO_AMOUNTS,
    GpuAmounts,
    GpuWorker,
    read_given_amounts,
    read_gpu_amounts,
)
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, ValueKind, in_address, value
from pools.domain.structured_input.fields import FieldReader
from pools.domain.values.quantities import Quantity

MAX_LENGTH: Final = 253
_ID = re.compile(rf"[!-.0-~]{{1,{MAX_LENGTH}}}")
_METAVAR = "tflops=N,vram=SIZE"
_REQUEST = "Request per GPU, such as tflops 10 and vram 1Gi."
_LIMIT = "Limit per GPU, such as tflops 20 and vram 2Gi."


def _read_id(reader: FieldReader, key: str) -> str:
    name = reader.body[key]
    if isinstance(name, str) and _ID.fullmatch(name):
        return name
    reader.add_fault(
        key, Fault.BAD_VALUE, f"must be 1 to {MAX_LENGTH:,} printable characters without spaces and without '/'."
    )
    return ""


def _read_workload(reader: FieldReader, key: str) -> str:
    text = reader.read_text(key)
    if len(text) > MAX_LENGTH:
        reader.add_fault(key, Fault.BAD_VALUE, f"has {len(text):,} characters; the most is {MAX_LENGTH:,}.")
    return text


def _read_gpus(reader: FieldReader, key: str) -> int:
    return reader.whole_number(key, 1, minimum=1, maximum=MAX_GPUS)


def _texts(given: Mapping[str, Quantity] | None) -> Mapping[str, str] | None:
    return None if given is None else {resource: str(amount) for resource, amount in given.items()}


_AMOUNTS = ValueKind("amounts", AMOUNTS_SCHEMA, read_gpu_amounts, GpuAmounts.as_dict)
_GIVEN_AMOUNTS = replace(_AMOUNTS, read=read_given_amounts, write=_texts)
_GPUS = ValueKind("number", {"type": "integer", "minimum": 1, "maximum": MAX_GPUS}, _read_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationChange(ChangeCommand):
    """A change of a worker. Its namespace says who may make it."""

    permission: ClassVar = None
    needs_version: ClassVar = False

    namespace: str = in_address("NAMESPACE", "Namespace", "Namespace of the quota.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateWorker(AllocationChange):
    """Allocate one worker if every cap allows it; an id that is in use already is answered as it is."""

    service: ClassVar = "allocate"
    audit: ClassVar = (
        AuditAction.GPU_ALLOCATION_COMMITTED,
        AuditAction.GPU_ALLOCATION_ASSUMED,
        AuditAction.GPU_QUOTA_ALERT,
    )

    id: str = value(
        replace(TEXT, read=_read_id),
        "Id",
        "Id of the allocation, chosen by the caller.",
        metavar="ID",
        positional=True,
        missing="is missing: name the allocation, so that asking again does nothing twice.",
    )
    request: GpuAmounts = value(_AMOUNTS, "Request", _REQUEST, default=NO_AMOUNTS, metavar=_METAVAR)
    limit: GpuAmounts = value(_AMOUNTS, "Limit", _LIMIT, default=NO_AMOUNTS, metavar=_METAVAR, option="--limit-to")
    count: int = value(
        _GPUS, "GPUs", "GPUs of one worker, 1 to 128; default 1.", default=1, option="--gpus", short="-g"
    )
    workload: str = value(replace(TEXT, read=_read_workload), "Workload", "Workload of the worker.", default="")
    assume: bool = value(
        BOOLEAN,
        "Only reserve it",
        "The reservation expires after 30 minutes unless it is committed.",
        default=False,
        in_query=True,
    )

    @property
    def worker(self) -> GpuWorker:
        """The size of the worker."""
        return GpuWorker(self.request, self.limit, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerChange(AllocationChange):
    """A change of a worker that is allocated."""

    id: str = in_address("ID", "Id", "Id of the allocation, chosen by the caller.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustWorker(WorkerChange):
    """Change the amounts of a worker per GPU; only an increase is checked."""

    service: ClassVar = "adjust"
    audit: ClassVar = (AuditAction.GPU_ALLOCATION_ADJUSTED, AuditAction.GPU_QUOTA_ALERT, AuditAction.GPU_QUOTA_CALM)

    request: Mapping[str, Quantity] | None = value(_GIVEN_AMOUNTS, "Request", _REQUEST, default=None, metavar=_METAVAR)
    limit: Mapping[str, Quantity] | None = value(
        _GIVEN_AMOUNTS, "Limit", _LIMIT, default=None, metavar=_METAVAR, option="--limit-to"
    )

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        if not (reader.faults.violations or reader.is_given("request") or reader.is_given("limit")):
            reader.faults.add("request", Fault.MISSING, "Give new amounts as request, as limit, or both.")

    def changed(self, before: GpuWorker) -> GpuWorker:
        """The worker with these amounts; one that is not given stays the same."""
        request, limit = self.request or {}, self.limit or {}
        return replace(before, request=replace(before.request, **request), limit=replace(before.limit, **limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWorker(WorkerChange):
    """Commit a reservation."""

    service: ClassVar = "commit"
    audit: ClassVar = (AuditAction.GPU_ALLOCATION_COMMITTED, AuditAction.GPU_QUOTA_ALERT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWorker(WorkerChange):
    """Release a worker; releasing it again is allowed."""

    service: ClassVar = "release"
    audit: ClassVar = (AuditAction.GPU_ALLOCATION_RELEASED, AuditAction.GPU_QUOTA_CALM)
