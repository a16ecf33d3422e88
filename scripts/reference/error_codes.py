"""The codes of refusals and of waiting as Markdown, generated from the enums by `make reference`, into
docs/error-codes.md."""

from __future__ import annotations

import sys

from pools.domain.errors import ErrorKind, Fault
from scheduling.domain.reason_codes import ReasonCode

PAGE_HEAD = f"""\
# Codes of errors, and of the reasons why work waits

<!-- Generated from the enums `Fault` and `ReasonCode` by `make reference`. -->

An error of the API is one object: `message` for people, `error_code`, and `details`, a list of all that is wrong at
once. Each entry has the `path` of the value, a `code`, a `message`, the `line` if the input is a file, and the
numbers of the message. Clients test `error_code` and `code`, never the text; `osmo … -o json` prints the same object.

Codes are stable. One that is not in the table is the name of a rule of another list: a constraint of the ledger
([database.md](database.md)), a limit of a GPU quota ([gpu-quota.md](gpu-quota.md)), in a scenario a reason why work
waits (below), or, where the error has no details of its own, its kind
({", ".join(f"`{kind}`" for kind in ErrorKind if kind != ErrorKind.STALE)}).
"""


WAITING_HEAD = """\
## Why work waits

The `code` of the reason of a waiting gang; [waiting.md](waiting.md) has the rest of the answer.
"""


def render_error_codes() -> str:
    """The whole page."""
    return "\n".join([PAGE_HEAD, _table(Fault), WAITING_HEAD, _table(ReasonCode)])


def _table(codes: type[Fault | ReasonCode]) -> str:
    rows = [f"| `{code}` | {code.meaning} |" for code in codes]
    return "\n".join(["| code | meaning |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(render_error_codes())
