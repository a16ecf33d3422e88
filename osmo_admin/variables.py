"""The variables of the environment that the product knows, and those that are set and not read.

The variables of the server are those that :mod:`osmo_admin.env` reads and names; `OTHERS` are all further ones.
docs/settings.md, docs/sign-on.md and the help of `osmo` have their meanings.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Collection, Iterable

from django.conf import settings

PREFIX = "OSMO_"
OTHERS = frozenset(
    {
        # Set by `osmo-admin up` for its own processes.
        "OSMO_ADMIN_INSTALLATION",
        "OSMO_LOCAL_URL",
        "OSMO_PROCESS",
        # Of the client, which may run in the same shell.
        "OSMO_CONFIG_FILE_DIR",
        "OSMO_DRY_RUN",
        "OSMO_OUTPUT",
        "OSMO_POOL",
        "OSMO_TIMEOUT",
        "OSMO_TOKEN",
        "OSMO_URL",
        "OSMO_USERNAME",
        "OSMO_YES",
    }
)
logger = logging.getLogger(__name__)


def unknown_variables(read: Collection[str], names: Iterable[str]) -> list[str]:
    """A sentence for each of the set variables `names` that begins with `OSMO_` and that nobody reads. `read` are those
    of the server. Values are not shown."""
    known = {*read, *OTHERS}
    found = []
    for name in sorted(name for name in names if name.startswith(PREFIX) and name not in known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        advice = f"Did you mean {near[0]}?" if near else "deploy/osmo-admin.env has all variables; remove it."
        found.append(f"{name} is set, and nothing reads a variable of this name. {advice}")
    return found


def warn_of_unknown_variables() -> None:
    """Write a line to the log for each variable that nobody reads. Called when a process starts."""
    for sentence in unknown_variables(settings.OSMO.read_variables, os.environ):
        logger.warning("%s", sentence)
