"""The log of shown effects of a simulated backend: what a preview said, beside what the next full cycle did.

A row is written in the transaction of the confirmed change, and judged by the first full cycle that sees it. If the
process dies between the two, the next full cycle judges it; if it dies while it applies the plan, the tokens have
moved, and the row is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pools.database.transactions import change, database_time
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import Backend
from pools.selectors.change_tokens import OwnChange, read_tokens
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.judgement.shown_effects import EffectWithdrawal, WorkEffect, effect_of_steps, judge_effect
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.garbage_collector import garbage_collector
from scheduling.models import ShownEffect
from scheduling.selectors.queue.live_facts import LiveFacts
from scheduling.selectors.what_if.impact import effect_of_plan, waiting_groups
from scheduling.services.simulated.apply_plan import PlanExecution


@dataclass(frozen=True, slots=True)
class OpenEffects:
    """The effects that wait for their cycle, as its snapshot sees them. `unchanged`: the ids of those since whose
    change nothing else was committed."""

    rows: Sequence[ShownEffect] = ()
    unchanged: frozenset[int] = frozenset()


def save_shown_effects(actor: Actor, title: str, memos: Iterable[Mapping[str, Any]], own: OwnChange) -> None:
    """Write what the preview of a change showed, in the transaction of the change and after it. `own`: the change
    tokens without and with the change. Where a cluster's own scheduler decides, the row is withdrawn at once."""
    now = database_time()
    rows = []
    for memo in memos:
        is_as_seen = all(own.before.get(subject, "") == token for subject, token in memo["tokens"].items())
        tokens = {subject: own.after.get(subject, "") for subject in memo["tokens"]} if is_as_seen else {}
        row = ShownEffect(
            backend_id=memo["backend"], user_id=actor.user_id, title=title, shown_at=memo["shown_at"], made_at=now,
            clock=memo["clock"], tokens=tokens, lost=memo["lost"], started=memo["started"],
        )  # fmt: skip
        if not memo["tokens"]:
            row.outcome, row.reason, row.ended_at = PromiseOutcome.WITHDRAWN, EffectWithdrawal.NOT_JUDGED, now
        rows.append(row)
    ShownEffect.objects.bulk_create(rows)


def read_open_effects(backend: Backend) -> OpenEffects:
    """One query where none waits, and two in all; in the snapshot of the facts."""
    rows = list(ShownEffect.objects.filter(backend_id=backend.pk, outcome=PromiseOutcome.OPEN).order_by("pk"))
    if not rows:
        return OpenEffects()
    now = read_tokens()
    is_same = {
        row.pk: bool(row.tokens) and all(now.get(subject, "") == token for subject, token in row.tokens.items())
        for row in rows
    }
    return OpenEffects(rows, frozenset(pk for pk, same in is_same.items() if same))


def judge_open_effects(backend: Backend, effects: OpenEffects, live: LiveFacts, execution: PlanExecution) -> None:
    """Compare them with what a plan of these facts has done."""
    if not effects.rows:
        return
    ids = {(gang.workflow_name, gang.group_name): str(gang.group) for gang in live.gangs.values()}
    steps = ((step["action"], ids[step["workflow"], step["group"]]) for step in execution.steps)
    found = effect_of_steps(steps, waiting_groups(live))
    is_whole = execution.as_planned and execution.busy_error is None
    for row in effects.rows:
        shown = WorkEffect(tuple(row.lost), tuple(row.started))
        is_seen = row.pk in effects.unchanged
        then = _effect_then(live, row.clock, found) if is_seen and found != shown else None
        verdict = judge_effect(shown, found if is_seen else None, as_planned=is_whole, then=then)
        row.outcome, row.reason = verdict.outcome, verdict.reason
        if verdict.found is not None:
            row.found_lost, row.found_started = list(verdict.found.lost), list(verdict.found.started)
    _save(backend, effects.rows)


def withdraw_open_effects(backend: Backend) -> None:
    """A backend that is offline runs no cycle with which they could be compared."""
    effects = read_open_effects(backend)
    for row in effects.rows:
        verdict = judge_effect(WorkEffect(), None)
        row.outcome, row.reason = verdict.outcome, verdict.reason
    _save(backend, effects.rows)


def _save(backend: Backend, rows: Sequence[ShownEffect]) -> None:
    if rows:
        with change(actor=SYSTEM, description="reconciled", controller_of=backend.pk):
            now = database_time()
            for row in rows:
                row.ended_at = max(now, row.made_at)  # a clock that was set back
            ShownEffect.objects.bulk_update(rows, ["outcome", "reason", "ended_at", "found_lost", "found_started"])


def _effect_then(live: LiveFacts, clock: str, found: WorkEffect) -> WorkEffect | None:
    """What these facts would have given at the time of the preview; None where they give something else than was found
    today as well, which no clock explains."""
    policy = live.facts.policy
    if policy is None or not clock:
        return None
    with garbage_collector.paused():
        today = effect_of_plan(live, run_cycle(live.facts))
        if today != found:
            return None
        return effect_of_plan(live, run_cycle(replace(live.facts, policy=replace(policy, now=Fraction(clock)))))
