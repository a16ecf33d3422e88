"""A namespace's quota as JSON, in the camelCase of the GPUResourceQuota object: read with all faults at once, and
written back with every quantity as it was typed.

Source: tensorfusion-quota.md, sections 1 and 9; decision D14 (unknown keys such as `compute` are refused).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pools.domain.errors import Violation
from pools.domain.gpu_quota.checks import DEFAULT_THRESHOLD, GpuQuotaSpec, ResourceCaps
from pools.domain.gpu_quota.workers import RESOURCES, GpuAmounts, read_gpu_amounts, read_quantity
from pools.domain.structured_input.fields import FieldReader

MAX_COUNT = 2**31 - 1
NAMESPACE_PATTERN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)
_TOTAL = ("requests", "limits", "maxWorkers", "alertThresholdPercent")
_SINGLE = ("maxRequests", "maxLimits", "maxGPUCount", "defaultRequests", "defaultLimits")


def namespace_violations(namespace: str) -> list[Violation]:
    """The rules that the name of a namespace breaks."""
    if _NAMESPACE.fullmatch(namespace):
        return []
    rule = "1 to 63 lower-case letters, digits and hyphens, no hyphen at an end"
    return [Violation("namespace", "bad_name", f"This is not a valid namespace: {rule}.")]


def parse_gpu_quota_spec(body: object, path: str = "spec") -> tuple[GpuQuotaSpec, list[Violation]]:
    """The `spec` of a quota, and every fault in it. An absent cap is not checked."""
    faults: list[Violation] = []
    if not isinstance(body, Mapping):
        return GpuQuotaSpec(), [Violation(path, "bad_value", f"{path} must be an object with total and single.")]
    spec = FieldReader(body, path, faults)
    spec.reject_unknown_keys(("total", "single"))
    total = spec.nested("total") or FieldReader({}, spec.path_of("total"), faults)
    single = spec.nested("single") or FieldReader({}, spec.path_of("single"), faults)
    total.reject_unknown_keys(_TOTAL)
    single.reject_unknown_keys(_SINGLE)
    requests, limits = _caps(total, "requests"), _caps(total, "limits")
    _check_limits(total, requests, limits)
    found = GpuQuotaSpec(
        requests=requests,
        limits=limits,
        max_workers=_count(total, "maxWorkers"),
        threshold=_threshold(total),
        max_requests=_caps(single, "maxRequests"),
        max_limits=_caps(single, "maxLimits"),
        max_gpu_count=_count(single, "maxGPUCount"),
        default_requests=read_gpu_amounts(single, "defaultRequests"),
        default_limits=read_gpu_amounts(single, "defaultLimits"),
    )
    return found, faults


def gpu_quota_spec_body(spec: GpuQuotaSpec) -> dict[str, Any]:
    """The spec as JSON, without empty parts; the threshold is always present."""
    total = {
        "requests": _caps_body(spec.requests),
        "limits": _caps_body(spec.limits),
        "maxWorkers": spec.max_workers,
        "alertThresholdPercent": spec.threshold,
    }
    single = {
        "maxRequests": _caps_body(spec.max_requests),
        "maxLimits": _caps_body(spec.max_limits),
        "maxGPUCount": spec.max_gpu_count,
        "defaultRequests": _amounts_body(spec.default_requests),
        "defaultLimits": _amounts_body(spec.default_limits),
    }
    parts = {name: _without_empty(part) for name, part in (("total", total), ("single", single))}
    return _without_empty(parts)


def _without_empty(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None and value != {}}


def _caps_body(caps: ResourceCaps) -> dict[str, str]:
    return {resource: str(cap) for resource in RESOURCES if (cap := caps.of(resource)) is not None}


def _amounts_body(amounts: GpuAmounts) -> dict[str, str]:
    return {resource: str(amounts.of(resource)) for resource in RESOURCES if amounts.of(resource).milli}


def _caps(place: FieldReader, key: str) -> ResourceCaps:
    table = place.nested(key)
    if table is None:
        return ResourceCaps()
    table.reject_unknown_keys(RESOURCES)
    return ResourceCaps(tflops=read_quantity(table, "tflops"), vram=read_quantity(table, "vram"))


def _count(place: FieldReader, key: str) -> int | None:
    if not place.is_given(key):
        return None
    return place.whole_number(key, 0, minimum=0, maximum=MAX_COUNT, below_code="negative")


def _threshold(place: FieldReader) -> int:
    value = place.body.get("alertThresholdPercent")
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= 100:
        said = "must be between 0 and 100."
        place.add_fault("alertThresholdPercent", "bad_value", said)
        return DEFAULT_THRESHOLD
    return place.whole_number("alertThresholdPercent", DEFAULT_THRESHOLD, minimum=0, maximum=100)


def _check_limits(total: FieldReader, requests: ResourceCaps, limits: ResourceCaps) -> None:
    """Refuse a limit below its request, because the request could then never be used up. Zero has another meaning."""
    for resource in RESOURCES:
        request, limit = requests.of(resource), limits.of(resource)
        if request is None or limit is None or not request.milli or not limit.milli:
            continue
        if limit.milli < request.milli:
            total.add_fault(
                f"limits.{resource}",
                "limit_below_request",
                f"cannot be less than requests.{resource}: {limit} is below {request}.",
            )
