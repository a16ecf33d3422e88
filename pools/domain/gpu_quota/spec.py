"""A namespace's quota as JSON, in the camelCase of the GPUResourceQuota object: read with all faults at once, and
written back with every quantity as it was typed.

Source: design, G1, D14 (unknown keys such as `compute` are refused).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pools.domain.errors import Fault, Violation
from pools.domain.gpu_quota.checks import DEFAULT_THRESHOLD, GpuQuotaSpec, ResourceCaps
from pools.domain.gpu_quota.workers import RESOURCES, GpuAmounts, read_gpu_amounts, read_quantity
from pools.domain.structured_input.config_fields import ConfigField, Schema, object_schema
from pools.domain.structured_input.fields import FieldReader

MAX_COUNT = 2**31 - 1
AMOUNT_WORDS: Final[Mapping[str, str]] = {"tflops": "TFLOPS", "vram": "Memory"}
"""What people call the resources."""
NAMESPACE_PATTERN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(NAMESPACE_PATTERN)


def namespace_violations(namespace: str) -> list[Violation]:
    """The rules that the name of a namespace breaks."""
    if _NAMESPACE.fullmatch(namespace):
        return []
    rule = "1 to 63 lower-case letters, digits and hyphens, no hyphen at an end"
    return [Violation("namespace", Fault.BAD_NAME, f"This is not a valid namespace: {rule}.")]


def _caps(place: FieldReader, key: str) -> ResourceCaps:
    table = place.nested(key)
    if table is None:
        return ResourceCaps()
    table.reject_unknown_keys(RESOURCES)
    return ResourceCaps(tflops=read_quantity(table, "tflops"), vram=read_quantity(table, "vram"))


def _count(place: FieldReader, key: str) -> int | None:
    if not place.is_given(key):
        return None
    return place.whole_number(key, 0, minimum=0, maximum=MAX_COUNT, below_code=Fault.NEGATIVE)


def _threshold(place: FieldReader, key: str) -> int:
    value = place.body.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= 100:
        place.add_fault(key, Fault.BAD_VALUE, "must be between 0 and 100.")
        return DEFAULT_THRESHOLD
    return place.whole_number(key, DEFAULT_THRESHOLD, minimum=0, maximum=100)


_QUANTITY: Final[Schema] = {
    "type": ["string", "number"],
    "minimum": 0,
    "description": "A Kubernetes quantity, such as 1500m or 40Gi.",
}
AMOUNTS_SCHEMA: Final = object_schema(dict.fromkeys(RESOURCES, _QUANTITY))
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}


def _amounts(key: str, label: str, help_text: str, name: str, read: Callable[[FieldReader, str], Any]) -> ConfigField:
    return ConfigField(key, AMOUNTS_SCHEMA, label, help_text, read=read, input=name, looks="amounts")


SPEC_FIELDS: Final = (
    _amounts("total.requests", "{} requested, in total", "Cap on the sum of requests.", "requests", _caps),
    _amounts(
        "total.limits", "{} limit, in total", "Cap on the sum of limits; not below the cap of requests.", "limits",
        _caps,
    ),
    ConfigField(
        "total.maxWorkers", _COUNT, "Workers", "Cap on workers; a worker is one pod, with any number of GPUs.",
        read=_count, input="max_workers",
    ),
    ConfigField(
        "total.alertThresholdPercent", {"type": "integer", "minimum": 0, "maximum": 100},
        "Alert above this percentage of usage",
        f"Percent of use above which an alert is raised; {DEFAULT_THRESHOLD} if it is not given.",
        read=_threshold, input="alert_threshold",
    ),
    _amounts(
        "single.maxRequests", "{} requested, per GPU of one worker", "Cap per GPU on a request; zero means no cap.",
        "max_requests", _caps,
    ),
    _amounts(
        "single.maxLimits", "{} limit, per GPU of one worker", "Cap per GPU on a limit; zero means no cap.",
        "max_limits", _caps,
    ),
    ConfigField(
        "single.maxGPUCount", _COUNT, "GPUs of one worker", "Cap on the GPUs of one worker.",
        read=_count, input="max_gpu_count",
    ),
    _amounts(
        "single.defaultRequests", "{} for a worker that requests none", "Request of a worker that names none.",
        "default_requests", read_gpu_amounts,
    ),
    _amounts(
        "single.defaultLimits", "{} limit for a worker that names none", "Limit of a worker that names none.",
        "default_limits", read_gpu_amounts,
    ),
)  # fmt: skip
"""The caps of a namespace, each said once; `input` is also its name in :class:`GpuQuotaSpec`. The label of amounts has
a place for the word of the resource."""
PARTS: Final = {part: [each for each in SPEC_FIELDS if each.key.startswith(f"{part}.")] for part in ("total", "single")}


def spec_schema() -> dict[str, Any]:
    """The JSON schema of a spec."""
    return object_schema(
        {
            part: object_schema({each.column: {"description": each.help, **each.schema} for each in fields})
            for part, fields in PARTS.items()
        }
    )


def parse_gpu_quota_spec(body: object, path: str = "spec") -> tuple[GpuQuotaSpec, list[Violation]]:
    """The `spec` of a quota, and every fault in it. An absent cap is not checked."""
    faults: list[Violation] = []
    if not isinstance(body, Mapping):
        return GpuQuotaSpec(), [Violation(path, Fault.BAD_VALUE, f"{path} must be an object with total and single.")]
    spec = FieldReader(body, path, faults)
    spec.reject_unknown_keys(PARTS)
    found: dict[str, Any] = {}
    for part, fields in PARTS.items():
        place = spec.nested(part) or FieldReader({}, spec.path_of(part), faults)
        place.reject_unknown_keys([each.column for each in fields])
        found |= {each.input: each.read(place, each.column) for each in fields if each.read is not None}
        if part == "total":
            _check_limits(place, found["requests"], found["limits"])
    return GpuQuotaSpec(**found), faults


def gpu_quota_spec_body(spec: GpuQuotaSpec) -> dict[str, Any]:
    """The spec as JSON, without empty parts; the threshold is always present."""
    body: dict[str, Any] = {}
    for part, fields in PARTS.items():
        values = {each.column: _value_body(getattr(spec, each.input)) for each in fields}
        if said := {key: value for key, value in values.items() if value is not None and value != {}}:
            body[part] = said
    return body


def _value_body(value: ResourceCaps | GpuAmounts | int | None) -> dict[str, str] | int | None:
    if isinstance(value, ResourceCaps):
        return {resource: str(cap) for resource in RESOURCES if (cap := value.of(resource)) is not None}
    if isinstance(value, GpuAmounts):
        return {resource: str(value.of(resource)) for resource in RESOURCES if value.of(resource).milli}
    return value


def _check_limits(total: FieldReader, requests: ResourceCaps, limits: ResourceCaps) -> None:
    """Refuse a limit below its request, because the request could then never be used up. Zero has another meaning."""
    for resource in RESOURCES:
        request, limit = requests.of(resource), limits.of(resource)
        if request is None or limit is None or not request.milli or not limit.milli:
            continue
        if limit.milli < request.milli:
            total.add_fault(
                f"limits.{resource}",
                Fault.LIMIT_BELOW_REQUEST,
                f"is {limit}, below the request of {request}: raise the limit, or lower the request.",
            )
