"""The codes of refusals as Markdown, generated from the enum by `make reference`, into docs/error-codes.md."""

from __future__ import annotations

import sys

from pools.domain.errors import ErrorKind, Fault

PAGE_HEAD = f"""\
# Codes of errors

<!-- Generated from the enum `Fault` by `make reference`. -->

An error of the API is one object: `message` for people, `error_code`, and `details`, a list of all that is wrong at
once. Each entry has the `path` of the value, a `code`, a `message`, the `line` if the input is a file, and the
numbers of the message. Clients test `error_code` and `code`, never the text; `osmo … -o json` prints the same object.

Codes are stable. One that is not in the table is the name of a rule of another list: a constraint of the ledger
([database.md](database.md)), a limit of a GPU quota ([gpu-quota.md](gpu-quota.md)), in a scenario a reason why work
waits ([waiting.md](waiting.md)), or, where the error has no details of its own, its kind
({", ".join(f"`{kind}`" for kind in ErrorKind if kind != ErrorKind.STALE)}).
"""


def render_error_codes() -> str:
    """The whole page."""
    rows = [f"| `{code}` | {code.meaning} |" for code in Fault]
    return "\n".join([PAGE_HEAD, "| code | meaning |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(render_error_codes())
