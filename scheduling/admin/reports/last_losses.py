"""The last answer of *What if it breaks* to a person, for a reload while the next one is being computed.

It is kept for a minute, for that person with these roles and this very question. A lost cache costs the answer only:
the page then asks again by itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.core.cache import cache
from django.utils import timezone

from pools.domain.people.roles import Actor
from pools.domain.shortage.degraded import HeldPromise
from scheduling.scenario.loss import NodeLossAnswer
from scheduling.selectors.what_if.single_losses import LossOutcome, SingleLoss, SingleLosses

KEPT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class LastLosses:
    """An answer: the table, what was asked in addition, and the time of day at which it was made."""

    found: SingleLosses
    loss: NodeLossAnswer | None
    clock: str


def keep_losses(actor: Actor, question: str, found: SingleLosses, loss: NodeLossAnswer | None) -> None:
    """Keep an answer. `question` is the address with its query."""
    kept = {"found": asdict(found), "loss": loss, "clock": f"{timezone.now():%H:%M:%S} UTC"}
    cache.set(_address(actor, question), kept, KEPT_SECONDS)


def read_last_losses(actor: Actor, question: str) -> LastLosses | None:
    """The last answer to this question; None if there was none within a minute."""
    kept = cache.get(_address(actor, question))
    if kept is None:
        return None
    losses = [_loss(row) for row in kept["found"].pop("losses")]
    return LastLosses(SingleLosses(**kept["found"], losses=losses), kept["loss"], kept["clock"])


def _loss(row: dict[str, Any]) -> SingleLoss:
    short, outcome = row.pop("short"), row.pop("outcome")
    return SingleLoss(
        **row,
        short=[HeldPromise(**each) for each in short],
        outcome=None if outcome is None else LossOutcome(**outcome),
    )


def _address(actor: Actor, question: str) -> str:
    return f"last-losses:{actor.user_id}:{' '.join(sorted(actor.roles))}:{question}"
