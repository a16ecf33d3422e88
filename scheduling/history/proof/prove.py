"""A month of another scheduler under a configuration of ours: read both, replay, compare (docs/moving-in.md)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pools.domain.errors import BadInput, Fault
from pools.domain.values.amounts import gpus_in
from pools.domain.values.counting import counted
from scheduling.configuration.files import BadFiles
from scheduling.configuration.folders import read_folder
from scheduling.domain.engine.facts import ClusterFacts, NodeFacts
from scheduling.domain.priorities import Priority
from scheduling.garbage_collector import garbage_collector
from scheduling.history.proof.configured_cluster import ConfiguredCluster, configured_cluster
from scheduling.history.proof.job_kinds import JobKinds, KindUse, hosts_of, kind_sentences, kind_uses, use_by_kind
from scheduling.history.proof.jobs_file import JobsWriter, moment_text
from scheduling.history.proof.month import ProvedMonth, begin_sentence, choose_month
from scheduling.history.proof.names_of_teams import TeamNames
from scheduling.history.proof.outcomes import BeforeAndAfter, OutcomeObserver, compare_outcomes, outcomes
from scheduling.history.proof.worst_cases import WorstReasons, never_starting_reasons
from scheduling.history.replay.clock import ArrivalCount, ReplayClock, ReplayRules
from scheduling.history.replay.jobs import SECOND, Job, JobTable
from scheduling.history.traces.cluster import leaf_names
from scheduling.history.traces.faults import FileFaults, ReplayFault
from scheduling.history.traces.run import Progress, Report, whole_file
from scheduling.history.traces.trace import Trace, TraceOptions, TraceReader
from scheduling.history.traces.unknown_teams import TeamWords

MOST_WORST = 10
OF_THE_FILE = "In the whole file: "


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """`folder` has the configuration, `history` is the file of jobs; `nodes` None: those of the folder."""

    folder: Path
    history: str
    jobs_file: str
    nodes: Sequence[NodeFacts] | None = None
    backend: str | None = None
    since: str | None = None
    until: str | None = None
    priority: Priority = Priority.LOW
    rules: ReplayRules = field(default_factory=ReplayRules)
    options: TraceOptions = field(default_factory=TraceOptions)


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer. `before_use`, `after_use`: GPU-microseconds held from the begin of the month to the last recorded end
    (`horizon`, both on the clock of the replay); `start` is the time of instant 0. `kinds`: the use of each flavor;
    `counted`: how jobs are counted; `untold`: what the history cannot say."""

    comparison: BeforeAndAfter
    reasons: dict[int, str]
    start: int
    is_dated: bool
    begin: int
    horizon: int
    before_use: int
    after_use: int
    nodes: int
    gpus: int
    kinds: tuple[KindUse, ...]
    counted: tuple[str, ...]
    untold: tuple[str, ...]
    sources: tuple[str, str]

    @property
    def capacity(self) -> int:
        """GPU-microseconds of the nodes from the begin of the month to the last recorded end."""
        return self.gpus * (self.horizon - self.begin)


def prove(request: ProofRequest, report: Report = lambda _progress: None) -> Proof:
    """Read, replay and compare; write the file of jobs. Raises `BadInput` and `ReplayFault`."""
    cluster = _cluster(request)
    facts = cluster.facts
    trace, month = _history(request, cluster)
    records, jobs = trace.records, month.jobs
    horizon = max(records.of(job.id).ended for job in jobs) - jobs.start
    observer, arrived = OutcomeObserver(month.begin, horizon), ArrivalCount()
    worst = WorstReasons(MOST_WORST, lambda job: records.of(job.id).ended - jobs.start, month.warm_up)
    clock = worst.clock = ReplayClock(facts, request.rules, (observer, arrived, worst))
    with garbage_collector.paused():
        for now in clock.run(jobs):
            report(Progress(request.folder.name, arrived.count, len(jobs), now // SECOND))
        with whole_file("--output", request.jobs_file) as file:
            writer = JobsWriter(file, start=jobs.start, is_dated=trace.is_dated)
            found = outcomes(month, records, observer, jobs.start)
            comparison = compare_outcomes(found, observer, most=MOST_WORST, write=writer.write)
        never = never_starting_reasons((group.first for group in comparison.never), facts, request.rules)
    gpus = int(sum(gpus_in(node.resources) for node in facts.nodes or ()))
    has_names, is_part = request.nodes is None, request.since is not None or request.until is not None
    begin = jobs.start + month.begin
    before = use_by_kind(((job, records.of(job.id)) for job in jobs), begin)
    untold = [
        begin_sentence(month, trace), *_untold(jobs, trace, gpus, begin),
        *_elsewhere(month, trace, facts if has_names else None), *cluster.notes,
        *(f"{OF_THE_FILE}{note}" if is_part else note for note in trace.notes),
    ]  # fmt: skip
    return Proof(
        comparison, {**worst.reasons, **never}, jobs.start, trace.is_dated, month.begin,
        horizon, sum(before.values()), sum(observer.used.values()), len(facts.nodes or ()), gpus,
        kind_uses(facts, before, observer.used), tuple(kind_sentences(month)), tuple(untold),
        (request.folder.name, Path(request.history).name),
    )  # fmt: skip


def _cluster(request: ProofRequest) -> ConfiguredCluster:
    if not request.folder.exists():
        raise BadInput(
            f"{request.folder} does not exist. Make it with: osmo-admin import KIND FILE... -o {request.folder}", []
        )
    files = read_folder(request.folder)
    if files.faults:
        raise BadFiles.of_faults(files.faults)
    cluster = configured_cluster(files, request.nodes, request.backend)
    if cluster.problem:
        raise BadInput(cluster.problem, [])
    return cluster


def _history(request: ProofRequest, cluster: ConfiguredCluster) -> tuple[Trace, ProvedMonth]:
    teams = leaf_names(cluster.facts)
    names = TeamNames(request.options.renames, teams, cluster.namespace)
    options = replace(
        request.options, renames=names, keeps_records=True, flavors_of=JobKinds(cluster.facts, cluster.flavors),
        team_words=TeamWords("a pool or a subpool of the folder", "POOL"),
    )  # fmt: skip
    reader = TraceReader(request.history, teams=teams, priority=request.priority, options=options)
    trace = reader.read()
    faults = FileFaults(request.history)
    if request.options.team is not None and request.options.team not in teams:
        faults.add(None, "--team", Fault.UNKNOWN_NAME, "The team is not a pool or a subpool of the folder.")
    month = None if trace is None else choose_month(trace, request.since, request.until, faults)
    if trace is None or month is None or faults.count:
        raise ReplayFault([reader.faults, faults])
    return trace, month


def _untold(jobs: JobTable, trace: Trace, gpus: int, begin: int) -> Iterator[str]:
    """What every history leaves open, and where it contradicts the nodes."""
    yield "People would have submitted other work with other waits. Durations do not depend on nodes or neighbours."
    most, when = _most_in_use(jobs, trace, begin)
    if most > gpus:
        at = moment_text(when, is_dated=trace.is_dated)
        yield (
            f"The record has {counted(most, 'GPU')} in use at {at}; the nodes of the replay have {gpus:,}. So jobs "
            "ran on other nodes, and waits of the replay are too long: give all nodes with --nodes."
        )


def _most_in_use(jobs: JobTable, trace: Trace, begin: int) -> tuple[int, int]:
    """The most GPUs that recorded runs held at one time since the begin of the month, and when, on the clock of the
    history."""
    times: array[int] = array("q")
    changes: array[int] = array("q")
    for job in jobs:
        for started, ended in trace.records.of(job.id).runs():
            if ended > begin:
                times.extend((max(started, begin), ended))
                changes.extend((job.gpus, -job.gpus))
    most = held = when = 0
    for at in sorted(range(len(times)), key=lambda at: (times[at], changes[at])):
        held += changes[at]
        if held > most:
            most, when = held, times[at]
    return most, when


def _elsewhere(jobs: Iterable[Job], trace: Trace, facts: ClusterFacts | None) -> Iterator[str]:
    """The jobs that ran on nodes which the replay does not have."""
    if facts is None:
        yield "The nodes have no names (--nodes), so nobody can tell which jobs ran on other nodes."
        return
    known = {node.name for node in facts.nodes or ()}
    seen: dict[str, bool] = {}
    count = unknown = held = 0
    for job in jobs:
        record = trace.records.of(job.id)
        if not record.nodes:
            unknown += 1
            continue
        if record.nodes not in seen:
            seen[record.nodes] = not known.issuperset(hosts_of(record.nodes))
        if seen[record.nodes]:
            count += 1
            held += job.gpus * job.duration
    if count:
        hours = held / SECOND / 3600
        yield f"{counted(count, 'job')} ({hours:,.0f} GPU-hours) ran on nodes that the folder does not have."
    if unknown:
        yield f"Of {counted(unknown, 'job')} the history does not say on which nodes they ran."
