"""The findings of a replay of an installation's own history with other quotas (docs/replay.md). Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from django.db.models import QuerySet

from pools.database.transactions import database_time
from pools.domain.configuration.flavors import parts_among
from pools.domain.errors import BadInput, Conflict, Fault, Violation
from pools.domain.names import canonical_name, queue_name
from pools.domain.people.roles import Actor, Permission
from pools.domain.values.amounts import flavor_of, gpu_words
from pools.models import Backend, Pool
from scheduling.domain.changes.replays import MAX_TRIES, MIN_TRIES
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.pool_quotas import gpu_keys, gpu_quota
from scheduling.garbage_collector import garbage_collector
from scheduling.history.advisor.advice import OwnAdvice
from scheduling.history.own.own_history import read_history
from scheduling.history.replay.history import Configuration, RecordedHistory, RecordedStep
from scheduling.history.replay.history_clock import Change, HistoryClock, Past, first_difference, shares_follow
from scheduling.history.replay.measures import Course, CourseDifference, compare
from scheduling.history.replay.past_measures import PersonAnswer, affected_people, summarize, summarize_queues
from scheduling.history.replay.recorded import follow_record
from scheduling.history.replay.sentences import replay_sentences
from scheduling.scenario import ScenarioError
from scheduling.scenario.fields import exact_number
from scheduling.scenario.live_state import LiveNames, build_live_scenario
from scheduling.selectors.what_if.live_question import find_backend

MAX_WINDOW = timedelta(days=31)
MAX_CHANGES = 20
MAX_PEOPLE = 200
CHANGED_KEYS = frozenset({"quota", "limit", "weight"})

Pace = Callable[[float], bool]
"""Called at each instant with the share of the work that is done, from 0 to 1: whether the replay has to stop."""


class StepAnswer(TypedDict):
    """A start or preemption; the time is UTC with its zone."""

    time: str
    action: str
    workflow: str
    nodes: list[str]


class FirstDifferenceAnswer(TypedDict):
    """The first step that the replay does not make as recorded; null where one has no more, or nobody may see it."""

    recorded: StepAnswer | None
    replayed: StepAnswer | None


class ReplayResultAnswer(TypedDict):
    """What a window of the past would have looked like; times are UTC with their zone. `exact_since`: from when on the
    record says which changes each decision had seen, where it does not say it of all."""

    backend: str
    since: str
    until: str
    steps: int
    identical: bool
    first_difference: FirstDifferenceAnswer | None
    exact_since: str | None
    recorded: Course
    on: Course
    against: Course | None
    difference: CourseDifference | None
    people: list[PersonAnswer]
    more_people: int
    advice: OwnAdvice | None
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class ReplayQuestion:
    """The window, and the `changes` of the queues in the form of a what-if: `[{"set": {"name", "quota", …}}]`. With
    `tries`, advice in that number of replays besides today's is wanted."""

    since: datetime
    until: datetime
    changes: Sequence[Any] = ()
    backend: str | None = None
    tries: int | None = None


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """Whose replay it is: `names` are the pools and leaves that the reader may see and change, with their queues.
    `reads_all`: the sums of the cluster too."""

    reads_all: bool
    names: Mapping[str, str]


def find_replay_backend(actor: Actor, question: ReplayQuestion) -> Backend:
    """The cluster whose history is replayed. Raises `BadInput`, `Forbidden`, `NotFound`, `Conflict`."""
    backend = find_backend(actor, {} if question.backend is None else {"backend": question.backend})
    if backend.kind != Backend.Kind.SIMULATED:
        raise Conflict(
            f"Cluster {backend.name} runs on Kubernetes, and only what a simulated cluster did can be replayed. "
            "Export a trace of it (osmo usage export --trace) and replay that (osmo replay TRACE --on CLUSTER.yaml)."
        )
    return backend


def visible_roots(actor: Actor, backend: Backend) -> QuerySet[Pool]:
    """The pools on this cluster that the actor may see and change in a replay."""
    roots = Pool.objects.roots().filter(backend=backend)
    return roots if actor.can_read_all else roots.filter(name__in=actor.pools_with(Permission.POOL_PARTITION))


def viewpoint(backend: Backend, roots: QuerySet[Pool], *, reads_all: bool) -> Viewpoint:
    """What a person who may see these pools can see in a replay."""
    found: dict[str, str] = {}
    for root in roots.prefetch_related("subpools"):
        found[root.name] = queue_name(backend.namespace, root.name, None)
        for short in ("_shared", *(part.subpool_name or "" for part in root.subpools.all())):
            found[canonical_name(root.name, short)] = queue_name(backend.namespace, root.name, short)
    return Viewpoint(reads_all, found)


def check_question(question: ReplayQuestion, view: Viewpoint) -> None:
    """Raises `BadInput` with every fault that shows without the record."""
    faults: list[Violation] = []
    if question.since >= question.until:
        faults.append(Violation("since", Fault.BAD_VALUE, "since is not before until: give an earlier time."))
    elif question.until - question.since > MAX_WINDOW:
        message = f"A replay covers at most {MAX_WINDOW.days} days: give a later since."
        faults.append(Violation("since", Fault.WINDOW_TOO_LONG, message, numbers=(("max_days", MAX_WINDOW.days),)))
    if question.until > database_time():
        faults.append(Violation("until", Fault.BAD_VALUE, "until is in the future, which nobody has recorded."))
    if question.tries is not None and question.changes:
        message = "Advice tries changes by itself: leave out the changes, or do not ask for advice."
        faults.append(Violation("changes", Fault.BAD_VALUE, message))
    if question.tries is not None and not MIN_TRIES <= question.tries <= MAX_TRIES:
        message = f"Advice takes from {MIN_TRIES} to {MAX_TRIES} replays (tries)."
        faults.append(Violation("tries", Fault.BAD_VALUE, message, numbers=(("min", MIN_TRIES), ("max", MAX_TRIES))))
    if len(question.changes) > MAX_CHANGES:
        message = f"A replay has at most {MAX_CHANGES} changes; these are {len(question.changes)}."
        faults.append(Violation("changes", Fault.BAD_VALUE, message, numbers=(("max", MAX_CHANGES),)))
    for number, entry in enumerate(question.changes):
        if not isinstance(entry, Mapping) or set(entry) != {"set"} or not isinstance(entry["set"], Mapping):
            message = 'A change of history is {"set": {"name": …, "quota": …}}; work cannot be added or removed.'
            faults.append(Violation(f"changes[{number}]", Fault.BAD_VALUE, message))
            continue
        faults += [
            Violation(
                f"changes[{number}].set.{str(key)[:50]}", Fault.UNKNOWN_KEY,
                f"A replay changes {', '.join(sorted(CHANGED_KEYS))}.",
            )
            for key in entry["set"]
            if key not in CHANGED_KEYS | {"name"}
        ]  # fmt: skip
        faults += _bad_amounts(number, entry["set"])
        name = entry["set"].get("name")
        if not isinstance(name, str) or name not in view.names:
            faults.append(_unknown_name(number))
    if faults:
        raise BadInput.of(faults)


def _bad_amounts(number: int, values: Mapping[str, Any]) -> Iterator[Violation]:
    """The numbers that no pool can have; maps of resources are read with the record."""
    for key in sorted(CHANGED_KEYS & values.keys()):
        value = values[key]
        if value is None or isinstance(value, Mapping):
            continue
        amount, may_be_unlimited = exact_number(value), key != "weight"
        if amount is None or (amount < 0 and not (amount == -1 and may_be_unlimited)):
            allowed = "a number from 0, or -1 for unlimited" if may_be_unlimited else "a number from 0"
            path = f"changes[{number}].set.{key}"
            yield Violation(path, Fault.BAD_VALUE, f"{key} must be {allowed}.")


def _unknown_name(number: int) -> Violation:
    message = "There was no pool or subpool of yours with this name."
    return Violation(f"changes[{number}].set.name", Fault.UNKNOWN_NAME, message)


def replay_own_history(backend: Backend, view: Viewpoint, question: ReplayQuestion, pace: Pace) -> ReplayResultAnswer:
    """Replay the window as it was and with the changes, and compare.

    Raises `BadInput`, `ScenarioError`, `Conflict`, and `TooLong` where `pace` stopped it.
    """
    history = read_history(backend, question.since, question.until)
    change = _QuotaChange(question.changes, view.names, history) if question.changes else None
    runs: list[Change | None] = [None] if change is None else [None, lambda kept: kept, change]
    with garbage_collector.paused():
        pasts = [
            HistoryClock(history, each, _share_of_run(history, number, len(runs), pace)).run()
            for number, each in enumerate(runs)
        ]
    as_it_was, would = pasts[1 if change else 0], pasts[2] if change else None
    answer = answer_without_changes(backend, view, question, history, pasts[0], as_it_was)
    if would is not None:
        known = _known_names(view.names)
        against = _numbers(view, would, known)
        answer |= {"against": against, "difference": compare(answer["on"], against)}
        people = affected_people(as_it_was, would, known)
        answer["people"] = [{**row, "queue": known[row["queue"]]} for row in people[:MAX_PEOPLE]]
        answer["more_people"] = max(0, len(people) - MAX_PEOPLE)
    larger = [] if change is None else change.larger_pools(history.configurations[-1], parts_among(backend.flavors))
    answer["sentences"] = [*replay_sentences(answer), *larger]
    return answer


def answer_without_changes(
    backend: Backend, view: Viewpoint, question: ReplayQuestion, history: RecordedHistory, unchanged: Past, shown: Past
) -> ReplayResultAnswer:
    """The keys of an answer, without sentences: the window as it was (`shown`), and whether the `unchanged` replay is
    the record."""
    known = _known_names(view.names)
    difference = first_difference(history.steps, unchanged.steps)
    first: FirstDifferenceAnswer | None = None
    if difference is not None:
        first = {
            "recorded": _step(difference.recorded, history, known),
            "replayed": _step(difference.replayed, history, known),
        }
    return {
        "backend": backend.name,
        "since": utc_text(question.since),
        "until": utc_text(question.until),
        "steps": len(history.steps) if view.reads_all else _count_steps(history, known),
        "identical": difference is None,
        "first_difference": first,
        "exact_since": None if history.exact_since is None else utc_text(_moment(history.exact_since)),
        "recorded": _numbers(view, follow_record(history, unchanged.capacity), known),
        "on": _numbers(view, shown, known),
        "against": None,
        "difference": None,
        "people": [],
        "more_people": 0,
        "advice": None,
        "sentences": [],
    }


def _share_of_run(history: RecordedHistory, number: int, runs: int, pace: Pace) -> Callable[[int], bool]:
    length = max(1, history.until - history.since)
    return lambda now: pace((number + min(1.0, (now - history.since) / length)) / runs)


class _QuotaChange:
    """The changes, made to every recorded configuration that has their queues. A subpool that gets another quota takes
    it from the shared leaf of its pool, or gives it back there, as in the ledger."""

    def __init__(self, changes: Sequence[Any], names: Mapping[str, str], history: RecordedHistory) -> None:
        self._changes, self._names = changes, names
        recorded = {queue.name for each in history.configurations for queue in each.queues}
        faults = [
            _unknown_name(number)
            for number, entry in enumerate(changes)
            if names.get(entry["set"]["name"]) not in recorded
        ]
        if faults:
            raise ScenarioError.of_faults(faults)
        for each in history.configurations:
            self(each)

    def __call__(self, recorded: Configuration) -> Configuration:
        """The configuration as it would have been. Raises `ScenarioError`."""
        queues = {queue.name: queue for queue in recorded.queues}
        entries = [entry for entry in self._changes if self._names[entry["set"]["name"]] in queues]
        if not entries:
            return recorded
        facts = ClusterFacts(queues=recorded.queues, cohorts=recorded.cohorts, nodes=recorded.nodes)
        question = {"live": True, "changes": [{"set": dict(entry["set"])} for entry in entries]}
        changed = build_live_scenario(facts, question, LiveNames(queue_aliases=self._names)).facts.queues
        return shares_follow(recorded, changed, {self._names[entry["set"]["name"]] for entry in entries})

    def larger_pools(self, recorded: Configuration, parts: Collection[str]) -> list[str]:
        """A sentence for each pool whose subpools would need more quota than the pool has. `parts` are the flavors that
        count parts of shared GPUs."""
        after = {queue.name: queue for queue in self(recorded).queues}
        changed = {self._names[entry["set"]["name"]] for entry in self._changes}
        named = {queue: name for name, queue in self._names.items()}
        lines = []
        for queue in recorded.queues:
            if queue.name not in recorded.shared or queue.name not in named or queue.name in changed:
                continue
            for key in gpu_keys([queue]):
                had, needs = gpu_quota(queue, key), gpu_quota(after[queue.name], key)
                if needs > had:
                    gpus = gpu_words(flavor_of(key), parts)[1]
                    lines.append(
                        f"{named[queue.name]} would need {needs} {gpus} of quota for its subpools; it has {had}."
                    )
        return lines


# -- the answer -------------------------------------------------------------------------------------------------------


def _known_names(names: Mapping[str, str]) -> dict[str, str]:
    """The leaves that run work, by queue, with the names that people write."""
    containers = {queue for name, queue in names.items() if "--" not in name}
    return {queue: name for name, queue in names.items() if queue not in containers}


def _numbers(view: Viewpoint, past: Past, known: Mapping[str, str]) -> Course:
    rows = summarize_queues(past, known)
    return {
        "summary": summarize(past, past.jobs.values()) if view.reads_all else None,
        "teams": {known[queue]: row for queue, row in rows.items() if row["jobs"]},
    }


def _count_steps(history: RecordedHistory, known: Mapping[str, str]) -> int:
    visible = {job.name for job in history.jobs if job.queue in known}
    return sum(step.gang in visible for step in history.steps)


def _step(step: RecordedStep | None, history: RecordedHistory, known: Mapping[str, str]) -> StepAnswer | None:
    """A step, if the reader may see its work."""
    if step is None or next(job.queue for job in history.jobs if job.name == step.gang) not in known:
        return None
    return {
        "time": utc_text(_moment(step.time)),
        "action": step.action,
        "workflow": step.gang,
        "nodes": list(step.nodes),
    }


def _moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def utc_text(at: datetime) -> str:
    """A time of an answer, in UTC."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
