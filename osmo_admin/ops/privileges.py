"""Which user the database runs as when we are root, and what that user can reach.

PostgreSQL refuses to run as root. We step down to a system user and never widen the permissions of a folder that
was there before us: what that user cannot reach is put elsewhere instead.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from osmo_admin.ops.errors import OperationError

# Made by Debian's PostgreSQL, Red Hat's, and every Unix, in that order.
CANDIDATE_USERS = ("postgres", "pgsql", "nobody")


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """A system user to step down to."""

    name: str
    uid: int
    gid: int


def find_database_account() -> SystemAccount | None:
    """None when we are not root (the database then runs as ourselves)."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATE_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemAccount(name, entry.pw_uid, entry.pw_gid)
    raise OperationError(
        f"PostgreSQL does not run as root, and none of the users {', '.join(CANDIDATE_USERS)} exists on this machine. "
        "Add one (adduser --system postgres), start as an ordinary user, or set DATABASE_URL."
    )


def can_reach(account: SystemAccount | None, path: Path) -> bool:
    """May this user enter (a folder) or execute (a file) `path`? Asked of the system, so ACLs count too."""
    if account is None:
        return os.access(path, os.X_OK)
    answer = subprocess.run(
        ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        cwd="/",
        check=False,
    )
    return answer.returncode == 0


def change_owner(account: SystemAccount | None, path: Path) -> None:
    """Make the account the owner of a path we have just made."""
    if account is not None:
        os.chown(path, account.uid, account.gid)
