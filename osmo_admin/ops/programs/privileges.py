"""The system user of the database, for a start as root, and the paths that this user can reach.

PostgreSQL refuses to run as root. We start it as a system user of its own, because every other program of a shared user
(`postgres`, `nobody`) could read the data and connect. We never widen the permissions of an existing folder: data that
the user could not reach is stored elsewhere.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from osmo_admin.ops.programs.errors import OperationError

OWN_USER = "osmo-admin-db"
# Only where no user can be created: those of the PostgreSQL of Debian, of Red Hat, and of every Unix, in this order.
SHARED_USERS = ("postgres", "pgsql", "nobody")
# Another program may be changing the users of the machine.
CREATE_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """A system user that runs the database."""

    name: str
    uid: int
    gid: int


def find_database_account() -> SystemAccount | None:
    """The user for the database; None if we are not root (the database then runs as the current user).

    As root it is the user `osmo-admin-db`, created if it does not exist; where that is impossible, a shared one.
    """
    if os.geteuid() != 0:
        return None
    account = _existing_account(OWN_USER) or _create_account(OWN_USER)
    for name in SHARED_USERS:
        account = account or _existing_account(name)
    if account is None:
        raise OperationError(
            f"PostgreSQL does not run as root, and none of the users {', '.join((OWN_USER, *SHARED_USERS))} exists on "
            f"this machine. Add one (useradd --system {OWN_USER}), start as an ordinary user, or set DATABASE_URL."
        )
    return account


def _existing_account(name: str) -> SystemAccount | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return SystemAccount(name, entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create_account(name: str) -> SystemAccount | None:
    """Create a system user that cannot log in and has no home; None where the machine does not allow it."""
    command = shutil.which("useradd")
    if command is None:
        return None
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false"]
    for _ in range(CREATE_ATTEMPTS):
        answer = subprocess.run([command, *options, name], capture_output=True, text=True, check=False)
        if account := _existing_account(name):  # perhaps created by another start
            return account
        if "lock" not in answer.stderr:
            break
        time.sleep(0.1)
    return None


def current_user_name() -> str:
    """The name of the user that runs this process. Raises OperationError if it has none, as in some containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise OperationError(
            f"The user with the number {os.geteuid()} has no name on this machine, and PostgreSQL recognises us by "
            "name. Start as a user of /etc/passwd, or set DATABASE_URL."
        ) from None


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
        env={},  # that user could read ours from /proc
        check=False,
    )
    return answer.returncode == 0


def change_owner(account: SystemAccount | None, path: Path) -> None:
    """Make the account the owner of a new path."""
    if account is not None:
        os.chown(path, account.uid, account.gid)


def take_over(account: SystemAccount | None, folder: Path) -> None:
    """Make the account the owner of a folder with its content, if another system user owned it until now.

    Only files of that former owner change, links are not followed, and the folder itself comes last: a conversion that
    was interrupted is repeated.
    """
    if account is None or not folder.exists() or (former := folder.stat().st_uid) == account.uid:
        return
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = Path(place, name)
            status = path.lstat()
            if status.st_uid == former and not (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
                os.chown(path, account.uid, account.gid, follow_symlinks=False)
    os.chown(folder, account.uid, account.gid)
