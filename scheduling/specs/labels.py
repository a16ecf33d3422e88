"""Labels of a workflow, by the rules of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pools.domain.errors import Fault, Violation
from pools.domain.structured_input.faults import quote
from pools.domain.values.durations import MAX_DURATION, parse_duration
from scheduling.domain.receipts.lost import CHECKPOINT_LABEL
from scheduling.domain.workflow_spec import SIMULATED_RUNTIME_LABEL

MAX_LABELS = 16
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DNS = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PREFIX = re.compile(rf"{_DNS}(?:\.{_DNS}){{0,120}}", re.ASCII)
_RULE = "1 to 63 letters, digits, `-`, `_` and `.`, a letter or digit first and last"


def check_labels(
    labels: Mapping[str, str], path: str = "labels", lines: Mapping[str, int] | None = None
) -> list[Violation]:
    """All faults of these labels. `lines`: key -> line in the file, if they come from one."""
    found = []
    if len(labels) > MAX_LABELS:
        message = f"There are {len(labels)} labels; at most {MAX_LABELS} are allowed. Remove some."
        found.append(Violation(path, Fault.TOO_MANY, message, min(lines.values()) if lines else None))
    for key, value in labels.items():
        if fault := _fault(key, value):
            found.append(Violation(f"{path}.{key}"[:200], *fault, (lines or {}).get(key)))
    return found


def _fault(key: str, value: str) -> tuple[Fault, str] | None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))):
        return Fault.BAD_LABEL, (
            f"The label key {quote(key)} is not allowed: {_RULE}, and before it, if at all, "
            "a domain in lower case and `/`. Change it."
        )
    if not _NAME.fullmatch(value):
        return Fault.BAD_LABEL, f"The value of label {quote(key)} is not allowed; allowed are {_RULE}. Change it."
    if (key == SIMULATED_RUNTIME_LABEL and parse_duration(value) is None) or (
        key == CHECKPOINT_LABEL and not parse_duration(value)
    ):
        return Fault.BAD_DURATION, (
            f"The label {quote(key)} needs a time like "
            f"30s, 5m, 1h30m or a number of seconds, at most {MAX_DURATION.days} days. Change it."
        )
    return None
