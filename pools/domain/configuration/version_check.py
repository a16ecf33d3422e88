"""The version in the caller's request against the present one: a change with `If-Match` applies to that version
only."""

from __future__ import annotations

from pools.domain.errors import Fault, Stale, Violation


def check_version(subject: str, seen: int | None, current: int | None) -> None:
    """Raise Stale unless `subject` still has the version `seen` by the caller. `seen` None: the caller accepts any
    version; `current` None: the object does not exist."""
    if seen is None or seen == current:
        return
    now = "it does not exist" if current is None else f"it is now {current}"
    sentence = f"{subject} was changed meanwhile: you saw version {seen}, {now}. Read it again."
    raise Stale(
        sentence, [Violation("If-Match", Fault.STALE, sentence, numbers=(("requested", seen), ("version", current)))]
    )
