"""`--watch`: the answer of a command again after each change, until Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable

from osmo_admin.cli.base.session import ClientSession

SECONDS_BETWEEN_REQUESTS = 2.0
CLEAR_SCREEN = "\x1b[H\x1b[2J\x1b[3J"


def pause(seconds: float) -> None:
    """Wait between two requests."""
    time.sleep(seconds)


class _Frame(io.StringIO):
    """One printed answer. It is a terminal if the standard output is one, so that it has the same width and colours."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def show_each_change(session: ClientSession, show: Callable[[], None]) -> None:
    """Call `show` again and again and print what it prints, if that differs from the last time.

    A terminal shows the newest answer only; any other output gets one answer after another. Ctrl-C ends the watch
    without an error; it ends by itself when the command says that nothing more can change.
    """
    output = sys.stdout
    is_terminal = output is not None and output.isatty()
    shown = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            frame = _Frame(is_terminal=is_terminal)
            with contextlib.redirect_stdout(frame):
                show()
            if frame.getvalue() != shown:
                shown = frame.getvalue()
                output.write((CLEAR_SCREEN if is_terminal else "") + shown)
                output.flush()
            if session.has_ended:
                return
            pause(SECONDS_BETWEEN_REQUESTS)
