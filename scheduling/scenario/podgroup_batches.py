"""PodGroup manifests and plans from files, in batches like scenarios (design, A6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.values.counting import counted
from scheduling.domain.judgement.podgroup_plan import (
    PlanAnswer,
    RankedViolationAnswer,
    plan_pod_group,
    ranked_violations,
)
from scheduling.domain.judgement.podgroup_rules import is_of_kai, is_valid, validate_pod_group
from scheduling.scenario.batch import Batch, answer_sources
from scheduling.scenario.bounds import FILE_BOUNDS, WEB_BOUNDS, ScenarioBounds
from scheduling.structured_yaml.value_reader import DocumentMap

PODGROUP_ERROR_CODE = "USER"


class ValidationAnswer(TypedDict):
    """Whether a manifest is valid, with every broken rule."""

    valid: bool
    violations: list[RankedViolationAnswer]


def validation_body(manifest: Any) -> ValidationAnswer:
    """`{"valid", "violations"}` of one manifest. Raises `BadInput` if a key is given twice."""
    _refuse_repeated(manifest)
    violations = validate_pod_group(manifest)
    return {"valid": is_valid(violations), "violations": ranked_violations(violations)}


def plan_body(body: Any, bounds: ScenarioBounds = FILE_BOUNDS) -> PlanAnswer:
    """The plan of one body. Raises `BadInput`."""
    _refuse_too_large(body, bounds)
    _refuse_repeated(body)
    return plan_pod_group(body)


def validate_files(sources: Iterable[str], *, stdin: str | None = None) -> Batch:
    """Every PodGroup in these files, directories, or `-`. Objects of other kinds and empty documents are skipped and
    counted."""
    return answer_sources(sources, validation_body, error_code=PODGROUP_ERROR_CODE, stdin=stdin, skip=_other_kind)


def _other_kind(value: Any) -> str | None:
    """The kind of a Kubernetes object that is not a PodGroup, or one of other software; None for everything else."""
    if value is None:
        return "empty document"
    kind, version = (value.get("kind"), value.get("apiVersion")) if isinstance(value, dict) else (None, None)
    if not isinstance(kind, str) or version is None:
        return None
    if kind == "PodGroup" and isinstance(version, str) and not is_of_kai(version):
        return f"PodGroup of {version.partition('/')[0][:63]}"
    return kind[:63] if kind.lower() != "podgroup" else None


def plan_files(sources: Iterable[str]) -> Batch:
    """Every plan body in these files, directories, or `-`."""
    return answer_sources(sources, plan_body, error_code=PODGROUP_ERROR_CODE)


def validation_exit_code(batch: Batch) -> int:
    """0 if all are valid, 1 if some are not, 2 if one could not be read."""
    if batch.exit_code:
        return batch.exit_code
    return 0 if all(entry.body["valid"] for entry in batch.entries) else 1


def _refuse_too_large(body: Any, bounds: ScenarioBounds) -> None:
    """Refuse a plan whose cost is too high: each step of giving up reads each group."""
    podgroup = body.get("podgroup") if isinstance(body, dict) else None
    spec = podgroup.get("spec") if isinstance(podgroup, dict) else None
    groups = spec.get("subGroups") if isinstance(spec, dict) else None
    pods = body.get("pods") if isinstance(body, dict) else None
    if not isinstance(groups, list) or not isinstance(pods, list) or len(groups) * len(pods) <= bounds.members:
        return
    message = (
        f"{counted(len(groups), 'group')} with {counted(len(pods), 'pod')} are too many for one answer: groups times "
        f"pods may be {bounds.members:,} at most here."
    )
    if bounds is WEB_BOUNDS:
        message += f" `osmo podgroup plan FILE` takes {FILE_BOUNDS.members:,}."
    raise BadInput(message, [Violation("pods", Fault.TOO_LARGE, message)])


def _refuse_repeated(value: Any) -> None:
    faults = []
    stack = [("", value)]
    while stack:
        path, inner = stack.pop()
        for key in inner.repeated_keys if isinstance(inner, DocumentMap) else ():
            message = f"The key '{key}' is given twice."
            faults.append(Violation(f"{path}.{key}".lstrip("."), Fault.DUPLICATE_NAME, message))
        if isinstance(inner, dict):
            stack.extend((f"{path}.{key}".lstrip("."), below) for key, below in inner.items())
        elif isinstance(inner, list):
            stack.extend((f"{path}[{position}]", below) for position, below in enumerate(inner))
    if faults:
        raise BadInput.of(sorted(faults, key=lambda fault: fault.path))
