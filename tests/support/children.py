"""Processes that a test starts."""

from __future__ import annotations

import subprocess

from osmo_admin.ops.programs.processes import ChildProcess
from tests.support.preloading import PreloadedProcess


def popen_of(child: ChildProcess) -> subprocess.Popen[bytes] | PreloadedProcess:
    """The process of a child; a wait for it can have a limit."""
    assert isinstance(child.popen, subprocess.Popen | PreloadedProcess)
    return child.popen
