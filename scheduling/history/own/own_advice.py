"""Quota advice from an installation's own history (docs/advisor.md). Nothing is written."""

from __future__ import annotations

from typing import Protocol

from pools.domain.configuration.flavors import parts_among
from pools.domain.values.amounts import flavor_of
from pools.models import Backend
from scheduling.domain.engine.pool_quotas import gpu_keys
from scheduling.garbage_collector import garbage_collector
from scheduling.history.advisor.advice import OwnAdvice, Window, advise
from scheduling.history.advisor.past_trials import PastTrials, find_past_pools
from scheduling.history.advisor.sentences import advice_sentences
from scheduling.history.own.own_history import read_history
from scheduling.history.own.own_replay import (
    ReplayQuestion,
    ReplayResultAnswer,
    Viewpoint,
    answer_without_changes,
)
from scheduling.history.replay.history_clock import HistoryClock
from scheduling.history.replay.measures import HOUR
from scheduling.history.replay.sentences import exactness_sentences


class Work(Protocol):
    """The time that the caller gives."""

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time is used up, so that `must_stop` is true for no other reason."""

    def must_stop(self, share: float) -> bool:
        """Called at each instant with the share of the work that is done, from 0 to 1."""


def advise_on_own_history(
    backend: Backend, view: Viewpoint, question: ReplayQuestion, work: Work, *, tries: int
) -> ReplayResultAnswer:
    """Replay the window with other quotas and lending limits, in at most `tries` replays besides today's, and propose
    the best for each pool. When the time is used up, the answer has what was tried by then.

    Lending limits belong to readers who see all pools: others could not change them. Raises `BadInput`, `Conflict`, and
    `TooLong` where the work was stopped, or had no time for the replay of today's quotas.
    """
    history = read_history(backend, question.since, question.until)
    names = {queue: name for name, queue in view.names.items()}
    whole = tries + 3

    def must_stop(replay: int, share: float) -> bool:
        return work.must_stop(min(1.0, (replay + share) / whole))

    with garbage_collector.paused():
        unchanged = HistoryClock(history, None, lambda _now: must_stop(0, 0.0)).run()
        trials = PastTrials(history, names, must_stop, lambda: work.is_out_of_time)
        pools = find_past_pools(history, names, with_lending=view.reads_all)
        use = {name: float(row["used_gpu_h"] or 0) for name, row in trials.today.teams.items()}
        hours = (history.until - history.since) / HOUR
        window = Window(use, trials.guaranteed_jobs(), hours, trials.idle_promises())
        found = advise(pools, trials, window, replays=tries, is_over=lambda: trials.is_over, backend=backend.name)
    advice: OwnAdvice = {**found, "quotas_changed": trials.quotas_changed, "out_of_time": trials.is_over}
    answer = answer_without_changes(backend, view, question, history, unchanged, trials.past)
    held = {flavor_of(key) for each in history.configurations for key in gpu_keys(each.queues)}
    sentences = advice_sentences(advice, parts_among(backend.flavors) & held)
    return {**answer, "advice": advice, "sentences": [*sentences, *exactness_sentences(answer)]}
