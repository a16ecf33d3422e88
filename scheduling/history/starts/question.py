"""The forecast start of a submission, and shorter ways in, answered before it is sent, for everybody who may submit.

The engine runs from the present state with the proposed work added: once as things stand, and where the work would
wait, in a few sampled futures (:mod:`scheduling.history.forecast.futures`). On a cluster with much work futures are
shared: those of the last background round where work like it waits in the queue
(:mod:`scheduling.history.starts.kept_futures`), else one set for all ways in. The answer is times alone; queues and
work of others are never part of it. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cache, partial

from pools.domain.errors import DomainError, Throttled
from pools.domain.people.roles import Actor
from pools.models import Pool
from pools.selectors.submission_path import find_leaf_with_root
from scheduling.domain.engine.facts import GangFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.priorities import Priority
from scheduling.domain.workflow_spec import WorkflowSpec
from scheduling.garbage_collector import garbage_collector
from scheduling.history.forecast.calibration import Calibration
from scheduling.history.forecast.chance import SPREAD
from scheduling.history.forecast.futures import NEVER, GangInfo, Present, sample_waits
from scheduling.history.forecast.smaller_work import smaller_work
from scheduling.history.starts.background import read_calibration, sum_up
from scheduling.history.starts.kept_futures import read_kept_futures
from scheduling.history.starts.proposed_gangs import BackendPresent, ProposedWork, is_small_cluster
from scheduling.locking import try_forecast_turn
from scheduling.selectors.queue.dispatch_holds import with_holds
from scheduling.selectors.queue.kept_starts import GangStart, read_start_of_last_before
from scheduling.selectors.work.submission_leaves import list_submission_leaves
from scheduling.selectors.work.workflow_log import words_of_work
from scheduling.services.workflows.submission import (
    PreparedSubmissions,
    prepare_submissions,
    submit_prepared,
)

FUTURES = SPREAD
LEAST_FUTURES = 2
SECONDS = 0.4
"""The time for the futures of one dry run; the least number of them is made in any case."""
SECONDS_OF_WAYS = 3.0
"""The time for all ways in together; a way that it does not reach has no start."""
MOST_APART = 200
"""With more live gangs, futures are shared: a set of its own for each way would take seconds."""
RETRY_SECONDS = 3
MOST_POOLS = 6
_CODES = ("as_asked", "pool", "priority", "minimum", "gpus")


@dataclass(frozen=True, slots=True)
class WayIn:
    """One way to submit the work. `code`: `as_asked`, `pool`, `priority`, `minimum` or `gpus`; `gpus`: it starts with
    them; `starts_now`: in the next pass, as things stand; `start` None: not computed."""

    code: str
    text: str
    pool: str
    priority: Priority
    gpus: int
    starts_now: bool
    start: GangStart | None


def starts_if_submitted(
    actor: Actor, prepared: PreparedSubmissions, *, at_once: bool = False
) -> list[GangStart | None]:
    """The start of each workflow if all of them were submitted now. None: another question of this person is being
    answered, or the pool has no cluster that runs work. `at_once`: without the time for futures on a large cluster,
    where the answer is the kept forecast of the last gang before it in its queue (None where nothing is before it)."""
    backend = prepared.leaf.root.backend
    if backend is None:
        return [None] * len(prepared.items)
    if at_once and not is_small_cluster(backend.pk):
        known = cache(partial(read_start_of_last_before, prepared.leaf))
        return [known(item.priority) for item in prepared.items]
    assert actor.user_id is not None, "only people submit"
    with try_forecast_turn(actor.user_id) as has_turn:
        if not has_turn:
            return [None] * len(prepared.items)
        question = _Question(BackendPresent(prepared.leaf.root))
        return question.starts(_proposed(actor, prepared), time.monotonic() + SECONDS)


def compare_ways_in(actor: Actor, prepared: PreparedSubmissions) -> list[WayIn]:
    """The ways to submit one workflow, the earliest start first: as the file says, on other pools of this person, with
    priority LOW, with a smaller minimum, with fewer GPUs. Only ways that a submission would accept. Raises Throttled
    while another question of this person is being answered."""
    assert actor.user_id is not None, "only people submit"
    with try_forecast_turn(actor.user_id) as has_turn:
        if not has_turn:
            raise Throttled(
                "The start of other work of yours is being forecast, and only one forecast of a user is made at a "
                f"time. Send this again in {RETRY_SECONDS} seconds.",
                retry_after=RETRY_SECONDS,
            )
        until = time.monotonic() + SECONDS_OF_WAYS
        by_backend: dict[int, list[tuple[str, str, PreparedSubmissions]]] = {}
        for code, text, way in _ways(actor, prepared):
            if way.leaf.root.backend is not None:
                by_backend.setdefault(way.leaf.root.backend.pk, []).append((code, text, way))
        found: list[WayIn] = []
        for ways in by_backend.values():
            question = _Question(BackendPresent(ways[0][2].leaf.root))
            proposed = [each for _code, _text, way in ways for each in _proposed(actor, way)]
            answers = question.alternatives(proposed, until, at_least=0 if found else 1)
            for (code, text, _way), work, (starts_now, start) in zip(ways, proposed, answers, strict=True):
                gpus = work.spec.largest_gang_gpus
                found.append(WayIn(code, text, work.leaf.name, work.priority, gpus, starts_now, start))
    return sorted(found, key=_earliest_first)


def _earliest_first(way: WayIn) -> tuple[bool, bool, float, int]:
    """Of equal starts, the way that gives up least comes first."""
    middle = None if way.start is None else way.start.p50
    return middle is None, way.start is None, 0.0 if middle is None else middle.timestamp(), _CODES.index(way.code)


def _proposed(actor: Actor, prepared: PreparedSubmissions) -> list[ProposedWork]:
    return [ProposedWork(prepared.leaf, item.spec, item.priority, actor.username) for item in prepared.items]


class _Question:
    """Answers about one backend, from one snapshot."""

    def __init__(self, backend: BackendPresent) -> None:
        self._backend, self._facts = backend, backend.facts
        self._calibration: Calibration | None = None
        self._rest: KeptState | None = None

    def alternatives(
        self, proposed: Sequence[ProposedWork], until: float, *, at_least: int
    ) -> list[tuple[bool, GangStart | None]]:
        """Whether each starts in the next pass if it alone is submitted, and its start; None where the time was over.
        The first `at_least` ones are answered in any case."""
        if self._shares_futures:
            return self._alternatives_together(proposed, until, at_least)
        found: list[tuple[bool, GangStart | None]] = []
        for each in proposed:
            start = self._now(each)
            starts_now = start is not None
            if start is None and (len(found) < at_least or time.monotonic() < until):
                (start,) = self.starts([each], min(until, time.monotonic() + SECONDS))
            found.append((starts_now, start))
        return found

    @property
    def _shares_futures(self) -> bool:
        return len(self._facts.present.gangs) > MOST_APART

    def _alternatives_together(
        self, proposed: Sequence[ProposedWork], until: float, at_least: int
    ) -> list[tuple[bool, GangStart | None]]:
        """Alternatives share futures, and each leaves a future in the instant of its start. Those of one queue would be
        in each other's way there, so a second set has the further ones of each queue, the smallest first."""
        found: list[tuple[bool, GangStart | None]] = []
        sets: list[list[int]] = [[], []]
        seen = set()
        for number, each in enumerate(proposed):
            start = self._now(each)
            starts_now = start is not None
            start = start or self._kept_start(each)
            found.append((starts_now, start))
            if start is None:
                place = each.leaf.pk, each.priority.is_preemptible
                sets[place in seen].append(number)
                seen.add(place)
        sets[1].sort(key=lambda number: proposed[number].spec.largest_gang_gpus)
        for group in filter(None, sets):
            if group[0] < at_least or time.monotonic() < until:
                works = [proposed[number] for number in group]
                starts = self._sampled(works, min(until, time.monotonic() + SECONDS), would_wait=True, leave=True)
                for number, start in zip(group, starts, strict=True):
                    found[number] = (False, start)
        return found

    def starts(self, proposed: Sequence[ProposedWork], until: float) -> list[GangStart | None]:
        """The start of each, if all are submitted now; None where the leaf runs no work."""
        if not self._shares_futures or len(proposed) > 1:
            return self._sampled(proposed, until)
        start = self._now(proposed[0]) or self._kept_start(proposed[0])
        return self._sampled(proposed, until, would_wait=True) if start is None else [start]

    def _now(self, proposed: ProposedWork) -> GangStart | None:
        """The start of work that starts in the next pass, as things stand; None if it would wait. A cluster at rest is
        kept from one question to the next as long as no answer changes it."""
        present, (names,) = self._with([proposed])
        if not names:
            return None
        if not self._shares_futures:
            return self._start_now() if self._running(present, names).issuperset(names) else None
        facts, now = with_holds(present.facts, present.held), Fraction(present.now)
        new = [gang for gang in facts.gangs if gang.name in names]
        if self._rest is None:
            rest = KeptState(replace(facts, gangs=facts.gangs[: -len(new)]))
            if rest.run(now).steps:  # what starts now may depend on the proposed work
                return self._start_now() if self._running(present, names).issuperset(names) else None
            self._rest = rest
        for gang in new:
            self._rest.arrived(gang)
        steps = self._rest.run(now).steps
        is_running = all(map(self._rest.is_running, names))
        if steps:
            self._rest = None
        else:
            for name in names:
                self._rest.ended(name)
        return self._start_now() if is_running else None

    def _kept_start(self, proposed: ProposedWork) -> GangStart | None:
        """The start of work that would wait, from the futures of the last background round; None if they cannot say."""
        gangs = [fact for fact, _kind in self._backend.gangs(proposed)]
        if not gangs:
            return None
        kept = []
        for number, gang in enumerate(gangs):
            read = read_kept_futures(self._facts, gang, gangs[:number])
            if read is None:
                return None
            kept.append(read)
        waits = [max(each) for each in zip(*(read.waits for read in kept), strict=False)]
        return self._sum_up(waits, gangs, min(read.made_at for read in kept))

    def _sampled(
        self, proposed: Sequence[ProposedWork], until: float, *, would_wait: bool = False, leave: bool = False
    ) -> list[GangStart | None]:
        """The start of each from futures that are made now. `would_wait`: none starts in the next pass, as is known.
        `leave`: they are alternatives; else all are submitted."""
        present, names = self._with(proposed)
        wanted = [name for each in names for name in each]
        with garbage_collector.paused():
            futures: list[dict[str, float]] = []
            running = set() if would_wait else self._running(present, wanted)
            for number in range(0 if len(running) == len(wanted) else FUTURES):
                if number >= LEAST_FUTURES and time.monotonic() > until:
                    break
                futures += sample_waits(present, wanted, [number], leave=leave)
        found: list[GangStart | None] = []
        for gangs in names:
            if not gangs:
                found.append(None)
            elif running.issuperset(gangs):
                found.append(self._start_now())
            else:
                waits = [max(min(future[name], NEVER) for name in gangs) for future in futures]
                new = [fact for fact in present.facts.gangs if fact.name in gangs]
                found.append(self._sum_up(waits, new, self._facts.now))
        return found

    def _sum_up(self, waits: Sequence[float], gangs: Sequence[GangFacts], made_at: datetime) -> GangStart:
        """The start of new gangs with these waits from now, in futures that were made at a time."""
        if self._calibration is None:
            self._calibration = read_calibration(self._backend.backend)
        sampled = sum_up(waits, self._facts.place_of_new(gangs), self._calibration)
        p10, p50, p90 = sampled.times(self._facts.now)
        record = sampled.record
        return GangStart(
            made_at, p10, p50, p90, sampled.never, like=record.like, in_time=record.in_time, samples=sampled.samples
        )

    def _start_now(self) -> GangStart:
        now = self._facts.now
        return GangStart(now, now, now, now)

    def _with(self, proposed: Sequence[ProposedWork]) -> tuple[Present, list[list[str]]]:
        """The present with this work, and the names of its gangs."""
        before = self._facts.present
        infos, names = dict(before.gangs), list[list[str]]()
        new: list[GangFacts] = []
        for number, each in enumerate(proposed):
            gangs = list(self._backend.gangs(each, number))
            new += [fact for fact, _kind in gangs]
            infos |= {fact.name: GangInfo(kind) for fact, kind in gangs}
            names.append([fact.name for fact, _kind in gangs])
        held = self._facts.holds.held_names(self._facts.live, new)
        return replace(
            before, facts=replace(before.facts, gangs=(*before.facts.gangs, *new)), gangs=infos, held=held
        ), names

    @staticmethod
    def _running(present: Present, names: Sequence[str]) -> set[str]:
        """Those of the gangs that start in the next pass, as things stand."""
        state = KeptState(with_holds(present.facts, present.held))
        state.run(Fraction(present.now))
        return {name for name in names if state.is_running(name)}


def _ways(actor: Actor, prepared: PreparedSubmissions) -> Iterator[tuple[str, str, PreparedSubmissions]]:
    """The ways that a submission would accept, each with its code and text."""
    (item,) = prepared.items
    words = words_of_work(prepared.leaf.root, (task.gpu_flavors for task in item.spec.tasks if task.gpu))
    yield "as_asked", "as asked", prepared
    tried: list[tuple[str, str, PreparedSubmissions]] = []
    if item.priority is not Priority.LOW:
        tried.append(("priority", "with priority LOW: it may be preempted", _with_priority(prepared, Priority.LOW)))
    tried += [(way.code, way.text, _with_spec(prepared, way.spec)) for way in smaller_work(item.spec, words)]
    for code, text, way in tried:
        if _is_accepted(actor, way):
            yield code, text, way
    for leaf in _other_leaves(actor, prepared.leaf):
        other = _on_leaf(actor, prepared, leaf)
        if other is not None and _is_accepted(actor, other):
            yield "pool", f"on {leaf.name}", other


def _other_leaves(actor: Actor, proposed: Pool) -> list[Pool]:
    """The first other pools and subpools of this person: those of the same pool, then those of its cluster."""
    names = list_submission_leaves(actor, near=proposed, most=MOST_POOLS)
    return [leaf for name in names if (leaf := find_leaf_with_root(name)) is not None]


def _on_leaf(actor: Actor, prepared: PreparedSubmissions, leaf: Pool) -> PreparedSubmissions | None:
    """The same work on another leaf; None if the rules of its pool refuse the file."""
    if leaf.root == prepared.leaf.root:
        return replace(prepared, leaf=leaf)
    submissions = [item.submission for item in prepared.items]
    try:
        return prepare_submissions(actor=actor, pool=leaf.name, submissions=submissions)
    except DomainError:
        return None


def _is_accepted(actor: Actor, prepared: PreparedSubmissions) -> bool:
    try:
        submit_prepared(actor=actor, prepared=prepared, is_dry_run=True)
    except DomainError:
        return False
    return True


def _with_priority(prepared: PreparedSubmissions, priority: Priority) -> PreparedSubmissions:
    """The same work with another priority."""
    items = [replace(item, submission=replace(item.submission, priority=priority)) for item in prepared.items]
    return replace(prepared, items=items)


def _with_spec(prepared: PreparedSubmissions, spec: WorkflowSpec) -> PreparedSubmissions:
    """One workflow with other groups or tasks, for a dry run; its rendered file is that of the original."""
    (item,) = prepared.items
    return replace(prepared, items=[replace(item, spec=spec)])
