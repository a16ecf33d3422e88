"""What a caller saw beside what is there: a change asked for with `If-Match` is made of that version only."""

from __future__ import annotations

from pools.domain.errors import Stale, Violation


def check_version(what: str, seen: int | None, there: int | None) -> None:
    """Raise Stale unless `what` still has the version that the caller saw. `seen` None: the caller does not care;
    `there` None: it does not exist."""
    if seen is None or seen == there:
        return
    now = "it does not exist" if there is None else f"it is now {there}"
    sentence = f"{what} was changed meanwhile: you saw version {seen}, {now}. Read it again."
    raise Stale(sentence, [Violation("If-Match", "stale", sentence, numbers=(("requested", seen), ("version", there)))])
