"""`python -m bench [NAME…] [--seconds N] [--out FILE]`: run benchmarks, print one JSON object."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import installation

NAMES = (
    "start", "client_start", "admission", "pool_quota", "drain", "engine", "live_reconcile", "cycle_record",
    "quota_tree", "queue_sync", "dispatch", "webhooks", "gpu_quota", "request_cost", "http_rates", "first_visit",
    "pages", "streams", "replay", "prove", "forecast", "policy_price", "losses",
)  # fmt: skip


ALONE = {"start", "prove"}
"""Measured without the installation that the others need."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--seconds", type=int, default=5, help="how long each load lasts")
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    report: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "system": platform.system()},
    }
    names = options.names or list(NAMES)
    if len(names) == 1:
        print(f"running {names[0]} ...", file=sys.stderr)
        with nullcontext() if names[0] in ALONE else installation.run_installation() as running:
            report[names[0]] = importlib.import_module(f"bench.{names[0]}").run(running, seconds=options.seconds)
    else:
        for name in names:  # each in a process of its own: a process belongs to one installation
            command = [sys.executable, "-m", "bench", name, "--seconds", str(options.seconds)]
            report[name] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)[name]
    text = json.dumps(report, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
