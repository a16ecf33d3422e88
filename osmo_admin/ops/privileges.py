"""The system user of the database, for a start as root, and the paths that this user can reach.

PostgreSQL refuses to run as root. We start it as a system user and never widen the permissions of an existing folder:
data that the user could not reach is stored elsewhere.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from osmo_admin.ops.errors import OperationError

# Created by the PostgreSQL of Debian, by that of Red Hat, and by every Unix, in this order.
CANDIDATE_USERS = ("postgres", "pgsql", "nobody")


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """A system user that runs the database."""

    name: str
    uid: int
    gid: int


def find_database_account() -> SystemAccount | None:
    """The user for the database; None if we are not root (the database then runs as the current user)."""
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
    """True if this user may enter the folder or execute the file `path`. The system decides, so ACLs count too."""
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
    """Make the account the owner of a new path."""
    if account is not None:
        os.chown(path, account.uid, account.gid)
