"""One replay from its files to its answer (docs/replay.md)."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from pools.domain.errors import Fault
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.priorities import Priority
from scheduling.garbage_collector import garbage_collector
from scheduling.history.forecast.forecaster import Forecaster
from scheduling.history.replay.clock import ArrivalCount, ReplayClock, ReplayObserver, ReplayRules
from scheduling.history.replay.jobs import SECOND, JobTable
from scheduling.history.replay.measures import Course, Measures, compare
from scheduling.history.traces import values
from scheduling.history.traces.calibration_plot import calibration_svg
from scheduling.history.traces.cluster import flavors_of_kinds, flavors_of_nodes, leaf_names, read_cluster
from scheduling.history.traces.faults import FileFaults, ReplayFault
from scheduling.history.traces.runs_file import RunsWriter
from scheduling.history.traces.trace import Trace, TraceOptions, TraceReader


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The files and the options. `since`, `until` and `score_since` are times as the trace writes them."""

    trace: str
    on: str
    against: str | None = None
    since: str | None = None
    until: str | None = None
    priority: Priority = Priority.LOW
    rules: ReplayRules = field(default_factory=ReplayRules)
    runs: str | None = None
    forecast: bool = False
    score_since: str | None = None
    calibration: str | None = None
    options: TraceOptions = field(default_factory=TraceOptions)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is: jobs that arrived, of all jobs, and the seconds since the first submission. `cluster` is
    the file that it runs on."""

    cluster: str
    arrived: int
    jobs: int
    now: int


Report = Callable[[Progress], None]
MakeObservers = Callable[[ClusterFacts], Sequence[ReplayObserver]]


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """What the files say: the jobs that take part, the clusters by file, the instant of `score_since`, and what was
    left out."""

    jobs: JobTable
    clusters: dict[str, ClusterFacts]
    score_since: int = 0
    notes: tuple[str, ...] = ()


def read_input(request: ReplayRequest) -> ReplayInput:
    """Read every file. Raises `ReplayFault` with the faults of all of them."""
    files: list[FileFaults] = []
    clusters: dict[str, ClusterFacts] = {}
    is_known = True
    teams: frozenset[str] | None = None
    flavors: frozenset[str] | None = None
    for source in dict.fromkeys(source for source in (request.on, request.against) if source is not None):
        faults = FileFaults(source)
        files.append(faults)
        facts = read_cluster(source, faults)
        if facts is None:
            is_known = False
            continue
        clusters[source] = facts
        leaves = leaf_names(facts)
        teams = leaves if teams is None else teams & leaves
        there = flavors_of_nodes(facts)
        flavors = there if flavors is None else flavors & there
    known = teams if is_known else None
    options = FileFaults(request.trace)
    if known is not None and request.options.team is not None and request.options.team not in known:
        options.add(
            None, "--team", Fault.UNKNOWN_NAME, "The team is not a queue that may run work in the cluster file."
        )
    reader = TraceReader(
        request.trace,
        teams=known,
        flavors=flavors if is_known else None,
        priority=request.priority,
        options=replace(request.options, flavors_of=flavors_of_kinds(flavors or ())),
    )
    trace = reader.read()
    jobs = None if trace is None else jobs_between(trace, request.since, request.until, options)
    score_since = None if trace is None else time_bound(trace, "score-since", request.score_since, options)
    if jobs is None or options.count or any(file.count for file in files):
        raise ReplayFault([reader.faults, options, *files])
    notes = () if trace is None else trace.notes
    return ReplayInput(jobs, clusters, 0 if score_since is None else score_since - jobs.start, notes)


def jobs_between(trace: Trace, since: str | None, until: str | None, faults: FileFaults) -> JobTable | None:
    """The jobs between `--since` and `--until`; None with a fault."""
    if since is None and until is None:
        return trace.jobs
    bounds = [time_bound(trace, "since", since, faults), time_bound(trace, "until", until, faults)]
    if faults.count:
        return None
    jobs = trace.jobs.between(bounds[0], bounds[1])
    if not len(jobs):
        faults.add(None, "--since", Fault.BAD_VALUE, "No job of the trace was submitted in the given time.")
        return None
    jobs.sort()
    return jobs


def time_bound(trace: Trace, option: str, text: str | None, faults: FileFaults) -> int | None:
    """The time of an option on the clock of the trace; None if it is not given, or with a fault."""
    if text is None:
        return None
    seconds = f"a number of seconds up to {values.MAX_SECONDS:,}"
    read, what = (values.moment, "a date") if trace.is_dated else (values.microseconds, seconds)
    bound = read(text.strip())
    if bound is None:
        faults.add(None, f"--{option}", Fault.BAD_VALUE, f"The value is not {what}, as the trace has.")
    return bound


def replay(
    request: ReplayRequest, report: Report = lambda _progress: None, observers: MakeObservers = lambda _facts: ()
) -> dict[str, Any]:
    """Read the files, run the jobs on each cluster, and answer. Raises `ReplayFault`.

    `observers` are added to the run on `request.on`.
    """
    began = time.monotonic()
    given = read_input(request)
    with ExitStack() as files:
        on = given.clusters[request.on]
        more = list(observers(on))
        if request.runs is not None:
            more.append(RunsWriter(files.enter_context(writable("--runs", request.runs))))
        plot = None
        if request.calibration is not None:
            plot = files.enter_context(writable("--calibration", request.calibration))
        forecaster = Forecaster(score_since=given.score_since) if request.forecast else None
        if forecaster is not None:
            more.append(forecaster)
        answer = _run(request.on, on, given.jobs, request.rules, more, report)
        if plot is not None and forecaster is not None:
            plot.write(calibration_svg(forecaster.scored))
    forecast = {} if forecaster is None else {"forecast": forecaster.summary()}
    if request.against is not None:
        against = _run(request.against, given.clusters[request.against], given.jobs, request.rules, [], report)
        pair = (Course(summary=each["summary"], teams=each["teams"]) for each in (answer, against))
        courses = dict(zip(("on", "against"), pair, strict=True))
        return {**courses, "difference": compare(**courses), **forecast, "notes": list(given.notes)}
    return (
        answer
        | forecast
        | {
            "notes": list(given.notes),
            "seconds": round(time.monotonic() - began, 3),
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }
    )


@contextmanager
def whole_file(option: str, path: str) -> Iterator[TextIO]:
    """The file, opened; it has its name once it is whole, so a process that is killed leaves the former one."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    with writable(option, str(partial)) as file:
        yield file
    partial.replace(target)


def writable(option: str, path: str) -> TextIO:
    """The file, opened. Raises `ReplayFault`."""
    try:
        return Path(path).open("w", encoding="utf-8", newline="")
    except OSError as error:
        faults = FileFaults(path)
        faults.add(None, option, Fault.BAD_VALUE, f"The file cannot be written: {error.strerror}.")
        raise ReplayFault([faults]) from None


def _run(
    name: str,
    facts: ClusterFacts,
    jobs: JobTable,
    rules: ReplayRules,
    observers: Sequence[ReplayObserver],
    report: Report,
) -> dict[str, Any]:
    measures = Measures(facts)
    arrived = ArrivalCount()
    clock = ReplayClock(facts, rules, (measures, arrived, *observers))
    with garbage_collector.paused():
        for now in clock.run(jobs):
            report(Progress(name, arrived.count, len(jobs), now // SECOND))
    summary, teams = measures.summaries()
    return {"summary": summary, "teams": teams, "events": clock.happenings, "passes": clock.passes}
