"""A function called with many inputs in a process of its own, with limits of memory and processor time for each.

The kernel ends a call beyond its limits, and the test fails with the number of the input. Wall-clock time does not
count, so a busy machine changes nothing.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHOWN_CHARACTERS = 2000
HANGS_SECONDS = 900
"""The limit for a process that waits for something, and so uses no processor time and does not end."""


def run_limited(
    target: str, cases: Sequence[Any], *, mebibytes: int, cpu_seconds: int, env: Mapping[str, str] | None = None
) -> list[Any]:
    """The answers of `target` (`module:function`) to the cases. Cases and answers are JSON; `mebibytes` are added to
    the memory of the process after the import of the module. Raises AssertionError for the case that breaks a limit or
    raises."""
    job = {"target": target, "cases": list(cases), "bytes": mebibytes * 2**20, "seconds": cpu_seconds}
    ended = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        timeout=HANGS_SECONDS,
        check=False,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode != 0 or len(answers) != len(cases):
        case = json.dumps(cases[len(answers)])[:SHOWN_CHARACTERS] if len(answers) < len(cases) else "none"
        message = (
            f"Case {len(answers)} ended the process ({ended.returncode}): {case}\n{ended.stderr[-SHOWN_CHARACTERS:]}"
        )
        raise AssertionError(message)
    return answers


def _main() -> None:
    job = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr
    module, function = job["target"].split(":")
    target = getattr(importlib.import_module(module), function)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    # The hard limits stay: processes that this one starts set their own.
    resource.setrlimit(resource.RLIMIT_AS, (in_use + job["bytes"], resource.RLIM_INFINITY))
    for case in job["cases"]:
        until = int(time.process_time()) + 1 + job["seconds"]
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
        print(json.dumps(target(case)), file=answers, flush=True)


if __name__ == "__main__":
    _main()
