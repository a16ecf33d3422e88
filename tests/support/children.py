"""Processes that a test starts."""

from __future__ import annotations

import subprocess

from osmo_admin.ops.programs.processes import ChildProcess


def popen_of(child: ChildProcess) -> subprocess.Popen[bytes]:
    """The process of a child that was started by its command; a wait for it can have a limit."""
    assert isinstance(child.popen, subprocess.Popen)
    return child.popen
