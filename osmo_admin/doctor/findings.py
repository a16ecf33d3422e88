"""One result of a check, as it is sent between processes and shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` is the kind of thing that was looked at, `subject` which one, if there are several. `advice` is what to
    do if it is not `ok`. No text has a secret, or an answer of a server that could contain one."""

    check: str
    subject: str
    ok: bool
    message: str
    advice: str = ""

    @classmethod
    def of(cls, content: dict[str, Any]) -> Finding:
        """The finding that `as_json` has made."""
        return cls(**content)

    def as_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self)
