"""Objects of a Kubernetes API server from a log of snapshots: each line a JSON object, a list of them or a watch event.

One indented document over many lines, as `kubectl get -o json` prints it, is read as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from pools.domain.structured_input.faults import quote
from scheduling.domain.cluster.quantities import read_quantity
from scheduling.history.traces.forms.found_job import Tell

MAX_DOCUMENT: Final = 32 * 2**20
"""Characters of one document. Its objects need several times as much memory."""

ADVICE: Final = "write one object on each line: kubectl get ... -o json | jq -c '.items[]'"
_EPOCH: Final = datetime(1970, 1, 1)
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_PARTS: Final = "nvidia.com/mig-"
_SHARES: Final = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI by which a pod has a part of one GPU."""

Json = Mapping[str, Any]


def read_objects(lines: Iterator[str], tell: Tell) -> Iterator[tuple[int, Json]]:
    """Each object with the line of its document."""
    for line, text in _documents(lines, tell):
        try:
            document = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
        except _GivenTwice as problem:
            tell(line, "", f"The key {quote(str(problem))} is given twice in one object: {ADVICE}.")
            continue
        except (ValueError, RecursionError):
            tell(line, "", f"This is not valid JSON, or is nested too deep: {ADVICE}.")
            continue
        if not isinstance(document, Mapping):
            tell(line, "", f"This is not a JSON object: {ADVICE}.")
            continue
        yield from ((line, each) for each in _objects(document))


def _refuse(_constant: str) -> NoReturn:
    raise ValueError


class _GivenTwice(ValueError):
    """A key that an object has twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _value in pairs]
        raise _GivenTwice(next(key for key in keys if keys.count(key) > 1))
    return found


def _documents(lines: Iterator[str], tell: Tell) -> Iterator[tuple[int, str]]:
    """The documents with the numbers of their first lines. One that goes on ends with a line `}`."""
    held: list[str] = []
    first = size = 0
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if held and text.startswith("{"):  # inside of an indented document no line begins so
            yield first, "\n".join(held)
            held = []
        if not held and (not text.strip() or (text.startswith("{") and text.rstrip().endswith("}"))):
            if text.strip():
                yield number, text
            continue
        if not held:
            first, size = number, 0
        size += len(text)
        if size > MAX_DOCUMENT:
            tell(first, "", f"The document has more than {MAX_DOCUMENT // 2**20} MiB: {ADVICE}.")
            return
        held.append(text)
        if text == "}" or not held[0].lstrip().startswith("{"):
            yield first, "\n".join(held)
            held = []
    if held:
        yield first, "\n".join(held)


def _objects(document: Json) -> Iterator[Json]:
    items = document.get("items")
    if isinstance(items, list) and word(document, "kind").endswith("List"):
        kind = word(document, "kind").removesuffix("List")
        yield from ({"kind": kind, **item} for item in items if isinstance(item, Mapping))
    elif isinstance(document.get("object"), Mapping) and isinstance(document.get("type"), str):
        yield document["object"]
    else:
        yield document


def part(value: object, *path: str) -> Json:
    """The map at a path; empty for anything else."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def entries(value: Json, key: str) -> list[Json]:
    """The maps of a list."""
    found = value.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def word(value: Json, key: str) -> str:
    """A text; empty for anything else."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def moment(text: object) -> int | None:
    """Microseconds since 1970 of a time as the API writes it."""
    if not isinstance(text, str) or "-" not in text[1:]:
        return None
    try:
        time = datetime.fromisoformat(text)
        naive = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        return None
    return (naive - _EPOCH) // timedelta(microseconds=1)


def since(status: Json, condition: str) -> int | None:
    """Since when a condition is true; None if it is not."""
    for each in entries(status, "conditions"):
        if each.get("type") == condition and each.get("status") == "True":
            return moment(each.get("lastTransitionTime"))
    return None


def gpus_of(amounts: Json) -> tuple[int, bool]:
    """The GPUs of a map of resources, and whether some are parts, each counted as one. Raises ValueError."""
    found, are_parts = 0, False
    for name, amount in amounts.items():
        is_part = name.startswith(_PARTS)
        if name in _GPUS or is_part:
            number = read_quantity(amount)
            if number is None or not 0 <= number <= 10**15:
                raise ValueError("has a number of GPUs that is not a quantity")
            found += math.ceil(number)
            are_parts = are_parts or (is_part and number > 0) or number.denominator != 1
    return found, are_parts


def gpus_of_pod(spec: Json, annotations: Json) -> tuple[int, bool]:
    """The GPUs of a pod, by its limits, else its requests: the sum of its containers, at least those of each init
    container with the ones before it that stay (`restartPolicy: Always`). A part of a GPU is one. Raises ValueError."""
    whole, largest, are_parts = 0, 0, False
    for container in entries(spec, "initContainers"):
        gpus, have_parts = _gpus_of_container(container)
        largest, are_parts = max(largest, whole + gpus), are_parts or have_parts
        if container.get("restartPolicy") == "Always":
            whole += gpus
    for container in entries(spec, "containers"):
        gpus, have_parts = _gpus_of_container(container)
        whole, are_parts = whole + gpus, are_parts or have_parts
    whole = max(whole, largest)
    if not whole and any(key in annotations for key in _SHARES):
        return 1, True
    return whole, are_parts


def _gpus_of_container(container: Json) -> tuple[int, bool]:
    found = gpus_of(part(container, "resources", "limits"))
    return found if found[0] else gpus_of(part(container, "resources", "requests"))
