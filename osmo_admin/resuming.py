"""A form that was sent after its session had ended: what was typed goes through the login and can be sent again.

The browser carries it, in one hidden field of the login form; the house keeps nothing of somebody it does not know. It
is sent again only by the person's own click, to the page it was meant for, which checks it like any other sending.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import HttpRequest

FIELD = "typed"
LONGEST = 2_000_000  # characters; more than any form of ours takes by hand
SECRETS = frozenset({"password", "old", "new", "again", "kubeconfig"})
_NEVER = SECRETS | {"csrfmiddlewaretoken", FIELD}


@dataclass(frozen=True, slots=True)
class Typed:
    """What was sent. `fields` are (name, value); `incomplete`: a secret or a file was there too and is not kept."""

    fields: tuple[tuple[str, str], ...]
    incomplete: bool

    def as_text(self) -> str:
        """For a hidden field; empty when it is too long to be carried."""
        text = json.dumps({"fields": self.fields, "incomplete": self.incomplete})
        return text if len(text) <= LONGEST else ""


def typed_in(request: HttpRequest) -> Typed:
    """What this request sent, without secrets and files."""
    sent = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    kept = tuple((name, value) for name, value in sent if name not in _NEVER)
    lost = any(name in SECRETS and value for name, value in sent) or bool(request.FILES)
    return Typed(kept, lost)


def carried(text: str) -> Typed | None:
    """What `Typed.as_text` wrote; None for anything else."""
    try:
        body = json.loads(text)
        fields = tuple((str(name), str(value)) for name, value in body["fields"])
        return Typed(fields, body["incomplete"] is True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
