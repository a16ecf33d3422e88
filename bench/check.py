"""`python -m bench.check [FRESH.json]`: compare the ratios of a new measurement with docs/performance.json.

Absolute numbers differ between machines, so only ratios are compared: a request to `version`, four times the size to
once, HTTP to pgbench. Without a file the benchmarks run now. Exit code 1 if a ratio lost more than a quarter, or if a
ratio of the committed file is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).parents[1] / "docs" / "performance.json"
BENCHMARKS = ("request_cost", "http_rates", "engine", "admission", "gpu_quota")
MOST_LOSS = 0.25


@dataclass(frozen=True, slots=True)
class Ratio:
    """One measured ratio. `more_is_better` for rates, not for times."""

    name: str
    value: float
    more_is_better: bool

    def loss_since(self, earlier: Ratio) -> float:
        """The part that was lost since: 0.25 for four thirds of the time, or three quarters of the rate."""
        better, worse = (earlier, self) if self.more_is_better else (self, earlier)
        return 1 - worse.value / better.value if better.value else 0.0


def read_ratios(report: Mapping[str, Any]) -> dict[str, Ratio]:
    """Every ratio of a report of `python -m bench`, by name."""
    return {ratio.name: ratio for ratio in _all_ratios(report)}


def _all_ratios(report: Mapping[str, Any]) -> Iterator[Ratio]:
    for row, values in report.get("request_cost", {}).items():
        if row != "version":
            yield Ratio(f"processor time, {row} / version", values["over_version"], more_is_better=False)
    for row, by_clients in report.get("http_rates", {}).items():
        if row != "version":
            yield Ratio(f"rate at 8 clients, {row} / version", by_clients["8"]["of_version"], more_is_better=True)
    sizes = {row["scale"]: row for row in report.get("engine", {}).get("sizes", ())}
    if {1, 4} <= sizes.keys():
        growth = sizes[4]["cycle_s"] / sizes[1]["cycle_s"]
        yield Ratio("engine from cold, 4× / 1×", round(growth, 2), more_is_better=False)
    for name, rows in report.get("admission", {}).items():
        if isinstance(rows, dict):
            yield Ratio(f"admission / pgbench, {name}", rows["8"]["ratio_to_pgbench"], more_is_better=True)
    for name, rows in report.get("gpu_quota", {}).items():
        if name.endswith(("namespace", "namespaces")):
            yield Ratio(f"GPU quota / pgbench, {name}", rows["8"]["http_to_pgbench"], more_is_better=True)


def find_losses(committed: Mapping[str, Any], fresh: Mapping[str, Any]) -> list[str]:
    """One line for each ratio that lost more than a quarter, or that was not measured; empty if all is well."""
    now = read_ratios(fresh)
    lines = []
    for name, earlier in read_ratios(committed).items():
        if name not in now:
            lines.append(f"{name}: was {earlier.value}, was not measured now")
        elif (loss := now[name].loss_since(earlier)) > MOST_LOSS:
            lines.append(f"{name}: was {earlier.value}, is {now[name].value}; {loss:.0%} lost")
    return lines


def main() -> int:
    """The command line."""
    if len(sys.argv) > 1:
        fresh = json.loads(Path(sys.argv[1]).read_text())
    else:
        command = [sys.executable, "-m", "bench", *BENCHMARKS]
        fresh = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    committed = json.loads(COMMITTED.read_text())
    compared = read_ratios(committed)
    if not compared:
        print(f"{COMMITTED.name} has no ratio, so nothing can be compared.")
        return 1
    for name, ratio in read_ratios(fresh).items():
        print(f"{name}: {ratio.value} (was {compared[name].value if name in compared else 'not measured'})")
    losses = find_losses(committed, fresh)
    print("\n".join(["", "Lost more than a quarter:", *losses]) if losses else "\nNo ratio lost more than a quarter.")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
