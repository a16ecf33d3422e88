"""`osmo-admin prove` on the real trace of `../shared/traces`, beside `osmo replay` on the same nodes and quotas.

The trace has no recorded starts, so each job is taken to have started when it was submitted. Both are the commands
themselves, in processes of their own; seconds are those of one core.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from bench.replay import CLUSTER, ROOT, TRACE

COLUMNS = ("JobID", "User", "Account", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State", "AllocTRES", "NodeList")
RATIO = 1.3
"""The most that a proof may take beside a replay."""


def run(installation: object, *, seconds: int) -> dict[str, object]:
    """For `python -m bench prove`; the installation and the seconds are not used."""
    if not (TRACE.exists() and CLUSTER.exists()):
        return {"not run": f"{TRACE.name} and {CLUSTER.name} are not in {TRACE.parent}"}
    with tempfile.TemporaryDirectory(prefix="prove-") as name:
        folder = Path(name)
        (folder / "month.txt").write_text("".join(_records()))
        (folder / "config").mkdir()
        (folder / "config" / "all.yaml").write_text(yaml.safe_dump(_configuration()))
        replay_s, answer = _measured("client", "replay", str(TRACE), "--on", str(CLUSTER), "-o", "json")
        words = ("-f", str(folder / "config"), "--history", str(folder / "month.txt"), "-o", str(folder / "proof"))
        prove_s, _text = _measured("server", "prove", *words)
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        page = len((folder / "proof" / "proof.html").read_bytes())
    return {
        "jobs": json.loads(answer)["summary"]["jobs"], "replay_s": replay_s, "prove_s": prove_s,
        "ratio": round(prove_s / replay_s, 2), "ratio_limit": RATIO, "memory_mib": round(memory, 1), "page_bytes": page,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def _measured(module: str, *words: str) -> tuple[float, str]:
    """The seconds of one core that a command took, and its output."""
    before = os.times()
    code = f"from osmo_admin.cli.{module} import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return round(used, 1), done.stdout


def _records() -> Iterator[str]:
    """The trace as `sacct -P` writes it."""
    yield _line(COLUMNS)
    with gzip.open(TRACE, "rt") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            begin = datetime.fromisoformat(row["submit_time"])
            end = begin + timedelta(seconds=int(row["duration_s"]))
            times = (f"{at:%Y-%m-%dT%H:%M:%S}" for at in (begin, begin, end))
            yield _line(
                (
                    str(number), f"u{number % 97}", row["team"], "normal", *times, row["duration_s"], "COMPLETED",
                    f"gres/gpu={row['gpus']}", "",
                )
            )  # fmt: skip


def _line(values: Sequence[str]) -> str:
    return "|".join(values) + "\n"


def _configuration() -> dict[str, Any]:
    """The nodes and quotas of the cluster file as our files have them. Names begin with a letter there."""
    given = yaml.safe_load(CLUSTER.read_text())
    never = {"reserve_after": None, "ageing": None}
    pools = {
        _pool(str(queue["name"])): {
            "backend": "all", "cohort": queue["parent"], "resources": {"gpu": {"guarantee": queue["quota"]}}
        }
        for queue in given["queues"]
    }  # fmt: skip
    return {
        "backends": {"all": {"type": "simulated", "nodes": given["nodes"], **never}},
        "cohorts": {cohort["name"]: {} for cohort in given["cohorts"]},
        "pools": pools,
    }


def _pool(team: str) -> str:
    return team if team[0].isalpha() else f"x-{team}"
