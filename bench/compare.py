"""What some commits cost one beside the other: `python -m bench.compare OLD NEW [--rounds N] [--out FILE]`, JSON out.

Each commit is checked out in a folder of its own and measured by its own benchmarks (`request_cost`, and `engine` at
1×), with this interpreter and its packages, so their lock files have to agree. A round measures each commit once, and
the next round in the opposite order: what the machine does meanwhile meets all of them alike. A row compares medians
over the rounds with those of the first commit; `least` and `most` are the ratios within single rounds. Times are
processor times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ENGINE_ROWS = ("cycle_s", "submission_s", "what_if_s", "explain_s", "instant_p50_ms", "instant_mean_ms")
Measured = dict[str, float]


@contextmanager
def checked_out(commit: str, under: Path) -> Iterator[Path]:
    """A folder with the files of a commit."""
    folder = under / commit
    subprocess.run(["git", "worktree", "add", "-q", "--detach", folder, commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", folder], check=True)


def measure(folder: Path) -> Measured:
    """All rows of the commit in this folder, once."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}

    def answer(*command: str) -> dict[str, dict[str, dict[str, float]]]:
        run = subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE
        )
        found: dict[str, dict[str, dict[str, float]]] = json.loads(run.stdout)
        return found

    requests = answer("-m", "bench", "request_cost")["request_cost"]
    engine: dict[str, object] = dict(answer(str(folder / "bench" / "engine.py"), "--one", "1"))
    rows = {f"{name} ms": row["ms"] for name, row in requests.items()}
    return rows | {f"engine {name}": float(str(engine[name])) for name in ENGINE_ROWS}


def compared(commits: Sequence[str], rounds: Sequence[Sequence[Measured]]) -> dict[str, dict[str, dict[str, float]]]:
    """By commit, each row with its median and its ratio to the first commit. `rounds`: what each commit measured."""
    found = {}
    for place, commit in enumerate(commits):
        rows = {}
        for row in rounds[0][0]:
            ratios = [each[place][row] / each[0][row] for each in rounds]
            first, mine = (statistics.median(each[at][row] for each in rounds) for at in (0, place))
            rows[row] = {
                "median": round(mine, 3), "ratio": round(mine / first, 3),
                "least": round(min(ratios), 3), "most": round(max(ratios), 3),
            }  # fmt: skip
        found[commit] = rows
    return found


def _short_name(commit: str) -> str:
    command = ["git", "rev-parse", "--short", commit]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure the commits in turns and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("commits", nargs="+", metavar="COMMIT", help="the first is the one to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    options = parser.parse_args()
    commits = [_short_name(commit) for commit in options.commits]
    rounds: list[list[Measured]] = []
    with tempfile.TemporaryDirectory(prefix="osmo-compare-") as under:
        Path(under).chmod(0o755)
        for number in range(options.rounds):
            measured = {}
            for commit in commits if number % 2 == 0 else commits[::-1]:
                print(f"round {number + 1} of {options.rounds}: {commit} ...", file=sys.stderr)
                with checked_out(commit, Path(under)) as folder:
                    measured[commit] = measure(folder)
            rounds.append([measured[commit] for commit in commits])
    text = json.dumps({"rounds": options.rounds, "commits": compared(commits, rounds)}, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
