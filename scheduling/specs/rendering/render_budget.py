"""The processor time that all templates of one request may take together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from scheduling.specs.rendering import sandbox

RENDER_SECONDS = 3.0
"""Most processor time of the templates of one request; real ones take milliseconds."""
_LEAST_SECONDS = 0.01


def _no_turn() -> None:
    """A reader that serves nobody else needs no turn."""


class RenderBudget:
    """One request's allowance. `take_turn` is called before the first render of the request, and only then; it may
    raise `Busy` or `Throttled`."""

    def __init__(self, take_turn: Callable[[], None] = _no_turn) -> None:
        self.seconds_left = RENDER_SECONDS
        self.is_spent = False
        self._take_turn: Callable[[], None] | None = take_turn

    def render(self, template: str, variables: Any, largest: int) -> dict[str, Any]:
        """See :func:`scheduling.specs.rendering.sandbox.render_in_sandbox`. The code `too_slow` becomes `budget_spent`
        if other templates of the request took a part of the time, and ends the budget."""
        if self._take_turn is not None:
            self._take_turn()
            self._take_turn = None
        answer: dict[str, Any] = {"error": {"code": "too_slow", "message": "", "line": None}}
        seconds, started = self.seconds_left, time.monotonic()
        if seconds >= _LEAST_SECONDS:
            answer = sandbox.render_in_sandbox(template, variables, largest, seconds=seconds)
        if (answer.get("error") or {}).get("code") == "too_slow":
            self.is_spent, self.seconds_left = True, 0.0
            if seconds < RENDER_SECONDS / 2:
                return {"error": {"code": "budget_spent", "message": "", "line": None}}
            return answer
        # A process that died has no count of its own.
        self.seconds_left -= answer.get("seconds", time.monotonic() - started)
        return answer
