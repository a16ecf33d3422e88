"""The numbers of docs/forecast.md: `nice python bench/forecast_scores.py TRACE --on CLUSTER.yaml`, Markdown out.

The trace is the public one of Philly, from 2017-10-02 to 2017-11-12, on 96 nodes of 8 GPUs. Two replays with forecasts:
the weeks on which the method was chosen, and later ones. Minutes each.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scheduling.history.traces.run import ReplayRequest, replay

WEEKS = {
    "chosen": ("10-09 to 10-22", "2017-10-02", "2017-10-09", "2017-10-23"),
    "later": ("10-23 to 11-12", "2017-10-16", "2017-10-23", "2017-11-13"),
}
"""The scored days, where the replay begins, from where it scores, and where it ends."""
DEPTHS = ("0", "1–7", "8–63", "64 and more")
HEAD = "forecasts | bursts | coverage | of bursts | loss | baseline |"


def _row(part: dict[str, Any], bursts: int) -> str:
    numbers = [part["coverage_80"], part["coverage_80_of_bursts"]]
    losses = [part["pinball"], part["pinball_baseline"]]
    cells = ["–" if each is None else f"{each:.2f}" for each in numbers]
    cells += ["–" if each is None else f"{each:.0f} s" for each in losses]
    return f"{part['scored']:,} | {bursts} | {' | '.join(cells)} |"


def tables(trace: str, cluster: str, weeks: str) -> str:
    """The table of these weeks: all forecasts, and those of each depth."""
    days, since, score_since, until = WEEKS[weeks]
    request = ReplayRequest(trace, cluster, since=since, until=until, score_since=score_since, forecast=True)
    found = replay(request)["forecast"]
    print(json.dumps(found), file=sys.stderr)
    lines = [f"| {days}, GPUs before it | {HEAD}", "|---|---|---|---|---|---|---|"]
    lines.append(f"| all | {_row(found, found['bursts'])}")
    lines += [f"| {name} | {_row(part, part['bursts'])}" for name, part in zip(DEPTHS, found["by_depth"], strict=True)]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--on", required=True)
    parser.add_argument("--weeks", choices=WEEKS, help="default: both")
    options = parser.parse_args()
    for name in [options.weeks] if options.weeks else WEEKS:
        print(tables(options.trace, options.on, name), "\n", sep="\n", flush=True)
