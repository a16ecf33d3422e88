"""Teams of a history that are no queue here: each is one fault, or its jobs are left out and counted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pools.domain.structured_input.faults import quote
from pools.domain.values.counting import counted
from scheduling.history.replay.jobs import SECOND

MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class TeamWords:
    """What a team has to be, and its placeholder in `--map`."""

    what: str
    target: str


QUEUES_OF_A_CLUSTER: Final = TeamWords("a queue that may run work in the cluster file", "QUEUE")


@dataclass(slots=True)
class _JobsOfTeam:
    line: int
    jobs: int = 0
    work: int = 0

    def text(self) -> str:
        return f"{counted(self.jobs, 'job')}, {_hours(self.work)}"


@dataclass(slots=True)
class UnknownTeams:
    """The teams in the order in which the history has them."""

    words: TeamWords
    teams: dict[str, _JobsOfTeam] = field(default_factory=dict)

    def see(self, team: str, line: int, work: int) -> None:
        """Note a job of a team with its work (GPU-microseconds)."""
        found = self.teams.setdefault(team, _JobsOfTeam(line))
        found.jobs += 1
        found.work += work

    def faults(self) -> Iterator[tuple[int, str]]:
        """Each team with the line of its first job."""
        for team, found in self.teams.items():
            jobs = counted(found.jobs, "job")
            option = f"--map {shlex.quote(team)}={self.words.target}"
            way = f"Give its jobs to another with {option}, or leave out all such teams with --skip-unknown-teams"
            yield found.line, f"{quote(team)}, the team of {jobs}, is not {self.words.what}. {way}"

    def sentences(self) -> Iterator[str]:
        """What was left out."""
        if not self.teams:
            return
        order = sorted(self.teams.items(), key=lambda each: (-each[1].work, each[0]))
        named = "; ".join(f"{quote(team)} ({found.text()})" for team, found in order[:MOST_NAMED])
        more = f"; and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else ""
        jobs, work = (sum(getattr(each, name) for each in self.teams.values()) for name in ("jobs", "work"))
        yield (
            f"{counted(jobs, 'job')} ({_hours(work)}) of {counted(len(order), 'team')} {'is' if jobs == 1 else 'are'} "
            f"left out, because no such team is {self.words.what}: {named}{more}. What they held is free in the replay."
        )


def _hours(work: int) -> str:
    return f"{work / SECOND / 3600:,.0f} GPU-hours"
