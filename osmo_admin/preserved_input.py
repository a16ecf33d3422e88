"""A form that was sent after its session had ended: what was typed goes through the login and can be sent again.

The browser carries it, in one hidden field of the login form; the house keeps nothing of somebody it does not know. It
is sent again only by the person's own click, to the page it was meant for, which checks it like any other sending.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import HttpRequest

FIELD_NAME = "typed"
MAX_CHARACTERS = 2_000_000  # characters; more than any form of ours takes by hand
SECRET_FIELDS = frozenset({"password", "old", "new", "again", "kubeconfig"})
_NEVER_KEPT = SECRET_FIELDS | {"csrfmiddlewaretoken", FIELD_NAME}


@dataclass(frozen=True, slots=True)
class PreservedInput:
    """What was sent. `fields` are (name, value); `incomplete`: a secret or a file was there too and is not kept."""

    fields: tuple[tuple[str, str], ...]
    incomplete: bool

    def serialize(self) -> str:
        """For a hidden field; empty when it is too long to be carried."""
        text = json.dumps({"fields": self.fields, "incomplete": self.incomplete})
        return text if len(text) <= MAX_CHARACTERS else ""


def read_input(request: HttpRequest) -> PreservedInput:
    """What this request sent, without secrets and files."""
    sent = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    kept = tuple((name, value) for name, value in sent if name not in _NEVER_KEPT)
    lost = any(name in SECRET_FIELDS and value for name, value in sent) or bool(request.FILES)
    return PreservedInput(kept, lost)


def parse_input(text: str) -> PreservedInput | None:
    """What `Typed.as_text` wrote; None for anything else."""
    try:
        body = json.loads(text)
        fields = tuple((str(name), str(value)) for name, value in body["fields"])
        return PreservedInput(fields, body["incomplete"] is True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
