"""Input of a form that was sent after its session had ended: it is kept during the login and can be sent again.

The browser carries the input in one hidden field of the login form; the server stores nothing of an unknown person. The
input is sent again only by the person's own click, to its original page, which checks it like any other input.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import HttpRequest

FIELD_NAME = "typed"
MAX_CHARACTERS = 2_000_000  # more than anybody types into one of our forms
SECRET_FIELDS = frozenset({"password", "old", "new", "again", "kubeconfig"})
_NEVER_KEPT = SECRET_FIELDS | {"csrfmiddlewaretoken", FIELD_NAME}


@dataclass(frozen=True, slots=True)
class PreservedInput:
    """The input of a form. `fields` are (name, value); `incomplete`: a secret or a file was sent, and is not kept."""

    fields: tuple[tuple[str, str], ...]
    incomplete: bool

    def serialize(self) -> str:
        """The value of the hidden field; empty when the input is too long."""
        text = json.dumps({"fields": self.fields, "incomplete": self.incomplete})
        return text if len(text) <= MAX_CHARACTERS else ""


def read_input(request: HttpRequest) -> PreservedInput:
    """The input of this request, without secrets and files."""
    sent = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    kept = tuple((name, value) for name, value in sent if name not in _NEVER_KEPT)
    is_incomplete = any(name in SECRET_FIELDS and value for name, value in sent) or bool(request.FILES)
    return PreservedInput(kept, is_incomplete)


def parse_input(text: str) -> PreservedInput | None:
    """The input that `PreservedInput.serialize` wrote; None for any other text."""
    try:
        body = json.loads(text)
        fields = tuple((str(name), str(value)) for name, value in body["fields"])
        return PreservedInput(fields, body["incomplete"] is True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
