"""The flavor in which a job counts: that of its record, else that of the nodes on which it ran, else every one of its
pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pools.domain.errors import BadInput
from pools.domain.values.amounts import DEFAULT_FLAVOR, flavor_of
from pools.domain.values.counting import counted
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.history.replay.jobs import SECOND, Job
from scheduling.history.traces.records import JobRecord
from scheduling.moving_in.result import SourcePlace
from scheduling.moving_in.slurm.lines import expand_hosts


class JobKinds:
    """Called with the queue, the recorded kind of GPU and the nodes of a job. Texts that many jobs share are read
    once."""

    def __init__(self, facts: ClusterFacts, flavors: Mapping[str, tuple[str, ...]]) -> None:
        """`flavors`: those of each queue, in order; empty where flavors are added up."""
        self._of_queue = flavors
        self._of_node = {node.name: flavor_of(next(iter(node.resources))) for node in facts.nodes or ()}
        names = {*self._of_node.values(), *(name for own in flavors.values() for name in own)}
        self._names = {name.lower(): name for name in sorted(names)}
        self._of_nodes: dict[str, str] = {}

    def __call__(self, queue: str, kind: str, nodes: str) -> tuple[str, ...]:
        own = self._of_queue.get(queue, ())
        if not own:
            return ()
        known = self._names.get(kind.lower()) or self._flavor_of(nodes)
        return (known,) if known else own

    def _flavor_of(self, nodes: str) -> str:
        """The flavor of all these nodes; empty if they have several, or one is not known."""
        if nodes not in self._of_nodes:
            found = {self._of_node.get(host, "") for host in hosts_of(nodes)}
            self._of_nodes[nodes] = found.pop() if len(found) == 1 else ""
        return self._of_nodes[nodes]


def hosts_of(text: str) -> list[str]:
    """The names of a list of hosts; a list that cannot be read is one host."""
    try:
        return [host.lower() for host in expand_hosts(text, SourcePlace("NodeList", 1))]
    except BadInput:
        return [text]


@dataclass(frozen=True, slots=True)
class KindUse:
    """One kind of GPU: its GPUs, and the GPU-microseconds held before and after. Without a name: jobs of which nobody
    can tell the kind, before."""

    name: str
    gpus: int
    before: int
    after: int


def use_by_kind(jobs: Iterable[tuple[Job, JobRecord]], begin: int) -> dict[str, int]:
    """The recorded GPU-microseconds since the begin of the month, by the flavor in which a job counts; the name is
    empty where nobody can tell it."""
    found: dict[str, int] = {}
    for job, record in jobs:
        name = job.flavors[0] if len(job.flavors) == 1 else ""
        found[name] = found.get(name, 0) + job.gpus * record.held_since(begin)
    return found


def kind_uses(facts: ClusterFacts, before: Mapping[str, int], after: Mapping[str, int]) -> tuple[KindUse, ...]:
    """The use of each flavor of the nodes, those with the most GPUs first; nothing without flavors."""
    gpus: dict[str, int] = {}
    for node in facts.nodes or ():
        for key, amount in node.resources.items():
            gpus[flavor_of(key)] = gpus.get(flavor_of(key), 0) + int(amount)
    if set(gpus) <= {DEFAULT_FLAVOR}:
        return ()
    names = sorted({*gpus, *after, *before}, key=lambda name: (name == "", -gpus.get(name, 0), name))
    return tuple(KindUse(name, gpus.get(name, 0), before.get(name, 0), after.get(name, 0)) for name in names)


def kind_sentences(jobs: Iterable[Job]) -> Iterator[str]:
    """In which flavors the jobs count."""
    known: dict[str, int] = {}
    unknown = work = 0
    for job in jobs:
        if len(job.flavors) == 1:
            known[job.flavors[0]] = known.get(job.flavors[0], 0) + 1
        elif job.flavors:
            unknown += 1
            work += job.gpus * job.duration
    if known:
        shown = ", ".join(f"{count:,} in {name}" for name, count in sorted(known.items()))
        yield f"Jobs count in the kind of GPU that they had: {shown}."
    if unknown:
        yield (
            f"Of {counted(unknown, 'job')} ({work / SECOND / 3600:,.0f} GPU-hours) nobody can tell the kind of GPU: in "
            "the replay they may use every kind of their pool."
        )
