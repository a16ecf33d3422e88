"""What a caller saw beside what is there: a change asked for with `If-Match` is made of that version only."""

from __future__ import annotations

from pools.domain.errors import Stale, Violation


def check_version(subject: str, seen: int | None, current: int | None) -> None:
    """Raise Stale unless `subject` still has the version that the caller saw. `seen` None: the caller does not care;
    `current` None: it does not exist."""
    if seen is None or seen == current:
        return
    now = "it does not exist" if current is None else f"it is now {current}"
    sentence = f"{subject} was changed meanwhile: you saw version {seen}, {now}. Read it again."
    raise Stale(
        sentence, [Violation("If-Match", "stale", sentence, numbers=(("requested", seen), ("version", current)))]
    )
