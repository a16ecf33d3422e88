"""PodGroup manifests and plans from files, in batches like scenarios (api.md, "Waiting and what-if")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pools.domain.errors import BadInput, Violation
from scheduling.domain.podgroup import is_valid, validate
from scheduling.domain.podgroup_plan import plan
from scheduling.scenario.batch import Batch, run
from scheduling.scenario.bounds import FILE, WEB, Bounds
from scheduling.scenario.reader import Map

ERROR_CODE = "USER"


def validation(manifest: Any) -> dict[str, Any]:
    """`{"valid", "violations"}` of one manifest. Raises `BadInput` if a key stands in it twice."""
    _refuse_repeated(manifest)
    violations = validate(manifest)
    return {
        "valid": is_valid(violations),
        "violations": [{**violation.as_dict(), "severity": violation.severity} for violation in violations],
    }


def planned(body: Any, bounds: Bounds = FILE) -> dict[str, Any]:
    """The plan of one body. Raises `BadInput`."""
    _refuse_too_large(body, bounds)
    _refuse_repeated(body)
    return plan(body)


def validate_files(sources: Iterable[str], *, stdin: str | None = None) -> Batch:
    """Every manifest in these files, directories, or `-`."""
    return run(sources, validation, error_code=ERROR_CODE, stdin=stdin)


def plan_files(sources: Iterable[str], *, stdin: str | None = None) -> Batch:
    """Every plan body in these files, directories, or `-`."""
    return run(sources, planned, error_code=ERROR_CODE, stdin=stdin)


def validation_exit_code(batch: Batch) -> int:
    """0 if all are valid, 1 if some are not, 2 if something could not be read."""
    if batch.exit_code:
        return batch.exit_code
    return 0 if all(entry.body["valid"] for entry in batch.entries) else 1


def _refuse_too_large(body: Any, bounds: Bounds) -> None:
    """Each step of giving up looks at each group, so their product is what the answer costs."""
    podgroup = body.get("podgroup") if isinstance(body, dict) else None
    spec = podgroup.get("spec") if isinstance(podgroup, dict) else None
    groups = spec.get("subGroups") if isinstance(spec, dict) else None
    pods = body.get("pods") if isinstance(body, dict) else None
    if not isinstance(groups, list) or not isinstance(pods, list) or len(groups) * len(pods) <= bounds.members:
        return
    sentence = (
        f"{len(groups)} groups with {len(pods)} pods are too many for one answer: groups times pods may be "
        f"{bounds.members} at most here."
    )
    if bounds is WEB:
        sentence += f" `osmo podgroup plan FILE` takes {FILE.members}."
    raise BadInput(sentence, [Violation("pods", "too_large", sentence)])


def _refuse_repeated(value: Any) -> None:
    faults = []
    stack = [("", value)]
    while stack:
        path, inner = stack.pop()
        for key in inner.repeated if isinstance(inner, Map) else ():
            message = f"The key '{key}' stands here twice."
            faults.append(Violation(f"{path}.{key}".lstrip("."), "duplicate_name", message))
        if isinstance(inner, dict):
            stack.extend((f"{path}.{key}".lstrip("."), below) for key, below in inner.items())
        elif isinstance(inner, list):
            stack.extend((f"{path}[{position}]", below) for position, below in enumerate(inner))
    if faults:
        raise BadInput.of(sorted(faults, key=lambda fault: fault.path))
