"""Secrets that a page shows once, after the form that made them.

A browser that sends the form twice, by a double click or a reload, shows only its last answer. Within a minute that
answer has the same secret, which is kept for so long as :mod:`pools.admin.kept_input` keeps secrets; later it says that
the secret was shown.
"""

from __future__ import annotations

from collections.abc import Callable

from pools.admin.done_changes import sent_once
from pools.admin.forms import ServiceForm
from pools.admin.kept_input import keep_input, read_kept_input
from pools.domain.people.roles import Actor

_SHOWN_AGAIN_MINUTES = 1


def make_secret(
    actor: Actor, form: ServiceForm, what: str, make: Callable[[], tuple[str, str]]
) -> tuple[str, str | None]:
    """The name of what `make` made and its secret, which may be empty; None for a secret that is not shown any more.
    `make` returns both and runs once for the form; `what` is that of :func:`sent_once`, whose errors are raised."""
    made: list[str] = []

    def make_now() -> tuple[str, str]:
        name, secret = make()
        made.append(secret)
        return name, keep_input(actor, {"secret": secret}, minutes=_SHOWN_AGAIN_MINUTES)

    (name, key), is_repeat = sent_once(actor, form, what, make_now)
    if not is_repeat:
        return name, made[-1]
    kept = read_kept_input(actor, key)
    return name, None if kept is None else kept["secret"]
